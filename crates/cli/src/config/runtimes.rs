//! Runtimes that the config file gives a name: `[runtimes.build1]`.

use std::path::PathBuf;

use serde::Deserialize;
use toml::Value;
use trl_client::remote::Address;
use trl_protocol::isolation::{Isolation, Profile};
use trl_runtime::NamedRuntime;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Ssh,
    Container,
    Trl,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kind: Kind,
    /// `[USER@]HOST[:PORT]`.
    host: Option<String>,
    image: Option<String>,
    /// `https://HOST:PORT` of another daemon.
    url: Option<String>,
    /// The file with the token for it.
    token_file: Option<PathBuf>,
    /// Certificate authorities (PEM) for its certificate.
    ca: Option<PathBuf>,
    #[serde(default)]
    labels: Vec<String>,
    max_sessions: Option<usize>,
    isolation: Option<Profile>,
    /// `/HERE:/THERE[:ro]`.
    #[serde(default)]
    mounts: Vec<String>,
}

pub(super) fn read(value: Value) -> Result<Vec<NamedRuntime>, String> {
    let Value::Table(table) = value else {
        return Err("`runtimes` is a table of tables: [runtimes.NAME]".to_owned());
    };
    table.into_iter().map(|(name, value)| named(name, value)).collect()
}

fn named(name: String, value: Value) -> Result<NamedRuntime, String> {
    let bad = |problem: String| format!("runtimes.{name}: {problem}");
    if name.contains(':') || matches!(name.as_str(), "" | "local" | "any") {
        return Err(bad("a runtime cannot have that name".to_owned()));
    }
    let written: Written = value.try_into().map_err(|error| bad(error.to_string().trim_end().to_owned()))?;
    let missing = |what: &str| bad(format!("`{what}` is missing"));
    let target = match written.kind {
        Kind::Ssh => format!("ssh:{}", written.host.ok_or_else(|| missing("host"))?),
        Kind::Container => format!("container:{}", written.image.ok_or_else(|| missing("image"))?),
        Kind::Trl => {
            let url = written.url.ok_or_else(|| missing("url"))?;
            url.parse::<Address>().map_err(|error| bad(format!("`url`: {error}")))?;
            if written.token_file.is_none() {
                return Err(missing("token_file"));
            }
            let files = [("token_file", &written.token_file), ("ca", &written.ca)];
            let relative =
                |(_, path): &(&str, &Option<PathBuf>)| path.as_ref().is_some_and(|path| path.is_relative());
            if let Some((field, _)) = files.into_iter().find(relative) {
                return Err(bad(format!("`{field}`: the path has to begin with /")));
            }
            format!("trl:{url}")
        }
    };
    if (written.token_file.is_some() || written.ca.is_some()) && !matches!(written.kind, Kind::Trl) {
        return Err(bad("`token_file` and `ca` are for another daemon (kind = \"trl\")".to_owned()));
    }
    if !written.mounts.is_empty() && !matches!(written.kind, Kind::Container) {
        return Err(bad("`mounts` are for containers".to_owned()));
    }
    if let Some(wrong) = written.mounts.iter().find(|mount| !is_mount(mount)) {
        return Err(bad(format!("`mounts`: {wrong:?} is not of the form /HERE:/THERE or /HERE:/THERE:ro")));
    }
    Ok(NamedRuntime {
        name,
        target,
        labels: written.labels,
        max_sessions: written.max_sessions,
        isolation: written.isolation.map(Isolation::of),
        mounts: written.mounts,
        token_file: written.token_file,
        ca: written.ca,
    })
}

fn is_mount(text: &str) -> bool {
    let absolute = |path: &str| path.starts_with('/');
    match text.split(':').collect::<Vec<_>>()[..] {
        [here, there] | [here, there, "ro"] => absolute(here) && absolute(there),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<NamedRuntime>, String> {
        let mut table: toml::Table = toml::from_str(text).unwrap();
        read(table.remove("runtimes").unwrap())
    }

    #[test]
    fn names_stand_for_targets() {
        let text = "[runtimes.build1]\nkind = \"ssh\"\nhost = \"me@b:22\"\nlabels = [\"gpu\"]\nmax_sessions = 8\n\
                    [runtimes.box]\nkind = \"container\"\nimage = \"debian:12\"\nisolation = \"strict\"\n\
                    mounts = [\"/src:/work\", \"/data:/data:ro\"]\n\
                    [runtimes.other]\nkind = \"trl\"\nurl = \"https://b:7\"\ntoken_file = \"/t\"\nca = \"/c\"\n";
        let found = parsed(text).unwrap();
        let targets: Vec<(&str, &str)> =
            found.iter().map(|named| (named.name.as_str(), named.target.as_str())).collect();
        assert_eq!(
            targets,
            [("box", "container:debian:12"), ("build1", "ssh:me@b:22"), ("other", "trl:https://b:7")]
        );
        assert_eq!(found[0].isolation, Some(Isolation::of(Profile::Strict)));
        assert_eq!(found[0].mounts, ["/src:/work", "/data:/data:ro"]);
        assert_eq!((found[1].labels.as_slice(), found[1].max_sessions), (&["gpu".to_owned()][..], Some(8)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, said) in [
            ("runtimes = 1", "table"),
            ("[runtimes.x]\nkind = \"ssh\"", "`host` is missing"),
            ("[runtimes.x]\nkind = \"warp\"", "warp"),
            ("[runtimes.x]\nkind = \"ssh\"\nhost = \"h\"\nhots = 1", "hots"),
            ("[runtimes.x]\nkind = \"container\"\nimage = \"i\"\nmounts = [\"src:/work\"]", "src:/work"),
            ("[runtimes.x]\nkind = \"ssh\"\nhost = \"h\"\nmounts = [\"/a:/b\"]", "for containers"),
            ("[runtimes.x]\nkind = \"ssh\"\nhost = \"h\"\nisolation = \"tight\"", "tight"),
            ("[runtimes.x]\nkind = \"trl\"\ntoken_file = \"/t\"", "`url` is missing"),
            ("[runtimes.x]\nkind = \"trl\"\nurl = \"https://b:7\"", "`token_file` is missing"),
            ("[runtimes.x]\nkind = \"trl\"\nurl = \"http://b:7\"\ntoken_file = \"/t\"", "use https"),
            ("[runtimes.x]\nkind = \"trl\"\nurl = \"https://b:7\"\ntoken_file = \"t\"", "begin with /"),
            ("[runtimes.x]\nkind = \"ssh\"\nhost = \"h\"\nca = \"/c\"", "another daemon"),
            ("[runtimes.local]\nkind = \"ssh\"\nhost = \"h\"", "that name"),
        ] {
            let problem = parsed(text).unwrap_err();
            assert!(problem.contains(said), "{text}: {problem}");
        }
    }
}
