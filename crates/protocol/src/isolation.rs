//! What a session is kept from: said in one word, or in detail.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Everything that the user can do.
    #[default]
    None,
    /// Reads the system, writes the workspace and a private `/tmp`; no home, no network, no other processes.
    Workspace,
    /// As `workspace`, with no more of the system than programs need to run.
    Strict,
}

impl Profile {
    pub fn name(self) -> &'static str {
        match self {
            Profile::None => "none",
            Profile::Workspace => "workspace",
            Profile::Strict => "strict",
        }
    }
}

/// Which network a session has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Net {
    /// Its own loopback only.
    #[default]
    None,
    /// The machine's network.
    Full,
    /// Only these hosts, through a proxy: `api.example.com`, `*.example.org:443`.
    Allow(Vec<String>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Devices {
    /// `null`, `zero`, `full`, `random`, `urandom`, `tty` and terminals.
    #[default]
    Minimal,
}

/// `"workspace"` is short for `{"profile":"workspace"}`. An object without a profile is one of `workspace`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Isolation {
    #[serde(default)]
    pub profile: Profile,
    /// Paths that can be read beyond what the profile gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Paths that can be written beyond the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Paths that appear empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<String>,
    #[serde(default)]
    pub net: Net,
    /// A directory with an unpacked system that becomes `/`. Changes in it are temporary unless it is also in `write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    #[serde(default)]
    pub devices: Devices,
    /// Accept what this machine can enforce; `session.info` tells what is missing.
    #[serde(default)]
    pub best_effort: bool,
}

impl Isolation {
    pub fn of(profile: Profile) -> Isolation {
        Isolation { profile, ..Isolation::default() }
    }

    pub fn is_none(&self) -> bool {
        self.profile == Profile::None
    }

    /// Whether it says anything that only a profile can enforce.
    fn asks_for_more(&self) -> bool {
        let Isolation { profile: _, read, write, hide, net, root, devices: _, best_effort: _ } = self;
        !read.is_empty() || !write.is_empty() || !hide.is_empty() || *net != Net::None || root.is_some()
    }
}

/// How [`Isolation`] may be written.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum WordOrObject {
    Word(Profile),
    Object(Isolation),
}

/// Passes fields on, and notes whether the profile is one of them.
struct Noted<A> {
    map: A,
    names_profile: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for &mut Noted<A> {
    type Error = A::Error;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.map.next_key::<String>()? else { return Ok(None) };
        self.names_profile |= key == "profile";
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: de::DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Takes one word or an object.
pub(crate) fn word_or_object<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Isolation>, D::Error> {
    struct Said;
    impl<'de> Visitor<'de> for Said {
        type Value = Option<Isolation>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("`none`, `workspace`, `strict` or an object with `profile`")
        }

        fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
            let profile = Profile::deserialize(de::value::StrDeserializer::new(word))?;
            Ok(Some(Isolation::of(profile)))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let mut map = Noted { map, names_profile: false };
            let mut isolation = Isolation::deserialize(MapAccessDeserializer::new(&mut map))?;
            if !map.names_profile {
                // Also of an object that says only what is the default: nobody writes `net: none` to have everything.
                isolation.profile = Profile::Workspace;
            }
            if isolation.profile == Profile::None && isolation.asks_for_more() {
                let why = "the profile `none` enforces nothing: `read`, `write`, `hide`, `net` and `root` need `workspace` or `strict`";
                return Err(de::Error::custom(why));
            }
            Ok(Some(isolation))
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
    from.deserialize_any(Said)
}

/// What is enforced, and by what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IsolationReport {
    pub requested: Isolation,
    pub enforced: Vec<Enforced>,
    /// What was asked for and cannot be enforced here; only with `best_effort`.
    pub missing: Vec<Missing>,
}

impl IsolationReport {
    /// Whether the session's network is not the machine's.
    pub fn has_own_network(&self) -> bool {
        self.enforced.iter().any(|one| one.what == "network" && one.by.starts_with("network namespace"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enforced {
    pub what: String,
    pub by: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    pub what: String,
    pub why: String,
    /// What would make it available.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// A number of bytes, written as a number or as `512M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(with = "SizeText")]
pub struct Size(pub u64);

/// How a [`Size`] may be written.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum SizeText {
    Bytes(u64),
    Text(String),
}

impl Size {
    /// `1024`, `512K`, `512M`, `1.5G`, `512MiB`; units are powers of 1024.
    pub fn parse(text: &str) -> Option<Size> {
        let text = text.trim();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return None,
        };
        if let Ok(whole) = digits.parse::<u64>() {
            return whole.checked_mul(1 << shift).map(Size);
        }
        let number: f64 = digits.parse().ok()?;
        let bytes = number * (1_u64 << shift) as f64;
        (bytes.is_finite() && bytes >= 0.0 && bytes < (1_u64 << 62) as f64).then_some(Size(bytes as u64))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or a text such as `512M`")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                Size::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(NumberOrText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Asked {
        #[serde(default, deserialize_with = "word_or_object")]
        isolation: Option<Isolation>,
    }

    fn asked(json: &str) -> Result<Option<Isolation>, String> {
        serde_json::from_str::<Asked>(json).map(|asked| asked.isolation).map_err(|error| error.to_string())
    }

    #[test]
    fn one_word_or_an_object() {
        assert_eq!(asked("{}"), Ok(None));
        assert_eq!(asked(r#"{"isolation":"strict"}"#), Ok(Some(Isolation::of(Profile::Strict))));
        let custom = r#"{"isolation":{"profile":"workspace","read":["/a"],"net":{"allow":["x.org:443"]}}}"#;
        let expected = Isolation {
            profile: Profile::Workspace,
            read: vec!["/a".to_owned()],
            net: Net::Allow(vec!["x.org:443".to_owned()]),
            ..Isolation::default()
        };
        assert_eq!(asked(custom), Ok(Some(expected)));
        let listed = asked(r#"{"isolation":{"net":{"allow":["x.org"]}}}"#).unwrap().unwrap();
        assert_eq!(listed.profile, Profile::Workspace);
        for object in [
            "{}",
            r#"{"net":"none"}"#,
            r#"{"best_effort":true}"#,
            r#"{"read":[]}"#,
            r#"{"devices":"minimal"}"#,
        ] {
            let isolation = asked(&format!(r#"{{"isolation":{object}}}"#)).unwrap().unwrap();
            assert_eq!(isolation.profile, Profile::Workspace, "{object}");
        }
        // As it is told, it can be said again.
        let none = serde_json::to_string(&Isolation::default()).unwrap();
        assert_eq!(asked(&format!(r#"{{"isolation":{none}}}"#)), Ok(Some(Isolation::default())));
        assert!(
            asked(r#"{"isolation":{"profile":"none","net":{"allow":["x.org"]}}}"#)
                .unwrap_err()
                .contains("`none`")
        );
        assert!(asked(r#"{"isolation":"tight"}"#).unwrap_err().contains("tight"));
        assert!(asked(r#"{"isolation":{"profil":"strict"}}"#).unwrap_err().contains("profil"));
        assert!(asked(r#"{"isolation":7}"#).unwrap_err().contains("workspace"));
    }

    #[test]
    fn sizes_have_units() {
        let cases = [
            ("1024", Some(1024)),
            ("512M", Some(512 << 20)),
            ("1.5g", Some(3 << 29)),
            ("2KiB", Some(2048)),
            ("", None),
            ("M", None),
            ("-1", None),
            ("1X", None),
            ("99999999999T", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Size::parse(text).map(|size| size.0), expected, "{text}");
        }
    }
}
