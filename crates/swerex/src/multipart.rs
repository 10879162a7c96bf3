//! Forms as browsers and programs upload files with (`multipart/form-data`).

#[derive(Debug)]
pub(crate) struct Form {
    fields: Vec<Field>,
}

#[derive(Debug)]
pub(crate) struct Field {
    name: String,
    file_name: Option<String>,
    pub(crate) content: Vec<u8>,
}

impl Field {
    /// The last part of the name that was given, if any.
    pub(crate) fn file_name(&self) -> &str {
        let name = self.file_name.as_deref().unwrap_or("file");
        name.rsplit('/').next().filter(|name| !matches!(*name, "" | "." | "..")).unwrap_or("file")
    }
}

impl Form {
    /// `content_type` is the header, which names the boundary.
    pub(crate) fn parse(content_type: &str, body: &[u8]) -> Option<Form> {
        let boundary = parameter(content_type, "boundary")?;
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // The first delimiter may begin the body.
        let whole = [b"\r\n", body].concat();
        let mut rest = after(&whole, &delimiter)?;
        let mut fields = Vec::new();
        while !rest.starts_with(b"--") {
            let end = find(rest, &delimiter)?;
            let part = rest.get(..end)?;
            let head_end = find(part, b"\r\n\r\n")?;
            let head = String::from_utf8_lossy(part.get(..head_end)?).into_owned();
            let content = part.get(head_end + 4..)?.to_vec();
            let disposition =
                head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))?;
            let name = parameter(disposition, "name")?;
            fields.push(Field { name, file_name: parameter(disposition, "filename"), content });
            rest = after(rest.get(end..)?, &delimiter)?;
        }
        Some(Form { fields })
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.field(name).map(|field| String::from_utf8_lossy(&field.content).into_owned())
    }
}

/// The value of `name="value"` or `name=value` after a semicolon.
fn parameter(header: &str, name: &str) -> Option<String> {
    let parts = header.split(';').skip(1);
    let pair = parts.filter_map(|part| part.split_once('=')).find(|(key, _)| key.trim() == name)?;
    Some(pair.1.trim().trim_matches('"').to_owned())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn after<'a>(haystack: &'a [u8], needle: &[u8]) -> Option<&'a [u8]> {
    haystack.get(find(haystack, needle)? + needle.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_with_their_bytes() {
        let body = b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a/b.bin\"\r\nContent-Type: a/b\r\n\r\n\0\r\n--y\r\n\xff\r\n--x\r\ncontent-disposition: form-data; name=\"target_path\"\r\n\r\n/tmp/x\r\n--x--\r\n";
        let form = Form::parse("multipart/form-data; boundary=x", body).unwrap();
        let file = form.field("file").unwrap();
        assert_eq!((file.content.as_slice(), file.file_name()), (&b"\0\r\n--y\r\n\xff"[..], "b.bin"));
        assert_eq!(form.text("target_path").unwrap(), "/tmp/x");
        assert!(form.field("unzip").is_none());
        for damaged in [&b""[..], b"--x", b"--x\r\n\r\n", b"--x\r\nno head"] {
            assert!(Form::parse("multipart/form-data; boundary=x", damaged).is_none());
        }
        assert!(Form::parse("multipart/form-data", body).is_none());
    }
}
