//! Writes values as JSON into a buffer, with strings by [`json_text`].
//!
//! serde_json looks at every byte of a string by itself; all streamed output is strings.
//! The benchmark `events` compares the two.

use std::fmt::{self, Display, Write as _};
use std::io::Write as _;

use serde::ser::{self, Serialize};

use trl_protocol::json_text;

/// Appends `value` as JSON. On an error the buffer may end in half a value.
pub(crate) fn put(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
    value.serialize(&mut Writer(out))
}

/// A value that JSON has no form for.
#[derive(Debug)]
pub(crate) struct Error(String);

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl ser::Error for Error {
    fn custom<T: Display>(message: T) -> Error {
        Error(message.to_string())
    }
}

struct Writer<'a>(&'a mut Vec<u8>);

/// Text that arrives in pieces, as the inside of a string.
struct Pieces<'a>(&'a mut Vec<u8>);

impl fmt::Write for Pieces<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        json_text::put_escaped(self.0, piece.as_bytes());
        Ok(())
    }
}

/// The inside of a list or an object, and what closes it.
struct Inside<'w, 'a> {
    writer: &'w mut Writer<'a>,
    is_first: bool,
    end: &'static [u8],
}

impl<'a> Writer<'a> {
    fn display(&mut self, value: impl Display) -> Result<(), Error> {
        self.0.write_fmt(format_args!("{value}")).map_err(ser::Error::custom)
    }

    fn open<'w>(&'w mut self, begin: &[u8], end: &'static [u8]) -> Inside<'w, 'a> {
        self.0.extend_from_slice(begin);
        Inside { writer: self, is_first: true, end }
    }

    /// `{"variant":`, to be closed with a brace.
    fn variant(&mut self, name: &str) {
        self.0.push(b'{');
        json_text::put(self.0, name);
        self.0.push(b':');
    }
}

macro_rules! displayed {
    ($($method:ident($type:ty);)*) => {
        $(fn $method(self, value: $type) -> Result<(), Error> {
            self.display(value)
        })*
    };
}

impl<'w, 'a> ser::Serializer for &'w mut Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Inside<'w, 'a>;
    type SerializeTuple = Inside<'w, 'a>;
    type SerializeTupleStruct = Inside<'w, 'a>;
    type SerializeTupleVariant = Inside<'w, 'a>;
    type SerializeMap = Inside<'w, 'a>;
    type SerializeStruct = Inside<'w, 'a>;
    type SerializeStructVariant = Inside<'w, 'a>;

    displayed! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        serde_json::to_writer(&mut *self.0, &value).map_err(ser::Error::custom)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        serde_json::to_writer(&mut *self.0, &value).map_err(ser::Error::custom)
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        json_text::put(self.0, value);
        Ok(())
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.0.push(b'"');
        write!(Pieces(self.0), "{value}").map_err(ser::Error::custom)?;
        self.0.push(b'"');
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant);
        value.serialize(&mut *self)?;
        self.0.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Inside<'w, 'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Inside<'w, 'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Inside<'w, 'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Inside<'w, 'a>, Error> {
        self.variant(variant);
        Ok(self.open(b"[", b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Inside<'w, 'a>, Error> {
        Ok(self.open(b"{", b"}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Inside<'w, 'a>, Error> {
        Ok(self.open(b"{", b"}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Inside<'w, 'a>, Error> {
        self.variant(variant);
        Ok(self.open(b"{", b"}}"))
    }
}

impl Inside<'_, '_> {
    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.writer.0.push(b',');
        }
    }

    fn element(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.separate();
        value.serialize(&mut *self.writer)
    }

    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.separate();
        json_text::put(self.writer.0, name);
        self.writer.0.push(b':');
        value.serialize(&mut *self.writer)
    }

    fn close(self) -> Result<(), Error> {
        self.writer.0.extend_from_slice(self.end);
        Ok(())
    }
}

macro_rules! lists {
    ($($trait:ident::$method:ident;)*) => {$(
        impl ser::$trait for Inside<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

lists! {
    SerializeSeq::serialize_element;
    SerializeTuple::serialize_element;
    SerializeTupleStruct::serialize_field;
    SerializeTupleVariant::serialize_field;
}

macro_rules! objects {
    ($($trait:ident;)*) => {$(
        impl ser::$trait for Inside<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

objects! {
    SerializeStruct;
    SerializeStructVariant;
}

impl ser::SerializeMap for Inside<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.separate();
        let start = self.writer.0.len();
        key.serialize(&mut *self.writer)?;
        // JSON has no other keys than strings.
        if self.writer.0.get(start) != Some(&b'"') {
            self.writer.0.insert(start, b'"');
            self.writer.0.push(b'"');
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.writer.0.push(b':');
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, serde::Serialize)]
    enum Kind {
        Unit,
        New(Option<u8>),
        Tuple(u8, f64),
        Struct { a: char, b: () },
    }

    #[derive(Debug, serde::Serialize)]
    struct All {
        kinds: Vec<Kind>,
        map: std::collections::BTreeMap<u32, &'static str>,
        value: serde_json::Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        none: Option<u8>,
        #[serde(flatten)]
        flat: std::collections::BTreeMap<&'static str, i64>,
    }

    #[test]
    fn everything_is_written_as_serde_json_does() {
        let all = All {
            kinds: vec![
                Kind::Unit,
                Kind::New(None),
                Kind::New(Some(1)),
                Kind::Tuple(2, 1e300),
                Kind::Struct { a: '"', b: () },
            ],
            map: [(1, "one"), (2, "t\nwo")].into(),
            value: json!({"x": [true, null, -5, 1.5, "é\u{1}"], "": {}}),
            none: None,
            flat: [("f", i64::MIN)].into(),
        };
        let mut ours = Vec::new();
        put(&mut ours, &all).unwrap();
        assert_eq!(String::from_utf8(ours).unwrap(), serde_json::to_string(&all).unwrap());
    }
}
