//! URLs, parsed as by Go: more leniently than by browsers, and without changing them.

/// A URL in its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Url {
    /// In lower case; empty for none.
    pub scheme: String,
    /// The part after the scheme, if it is not a path.
    pub opaque: String,
    /// The user with the password, if there is one.
    pub user: String,
    /// The host with its port.
    pub host: String,
    /// Unchanged.
    pub path: String,
    /// Without its question mark.
    pub query: String,
    /// Without its `#`.
    pub fragment: String,
}

impl Url {
    /// Parses a URL with a scheme, or an absolute path.
    ///
    /// # Errors
    /// Go's message for an invalid URL.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("parse {text:?}: {why}");
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(wrong("net/url: invalid control character in URL"));
        }
        if text.is_empty() {
            return Err(wrong("empty url"));
        }
        let (whole, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = scheme(whole).ok_or_else(|| wrong("missing protocol scheme"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self { scheme, query: query.to_owned(), fragment: fragment.to_owned(), ..Self::default() };
        if !rest.starts_with('/') {
            if url.scheme.is_empty() && rest != "*" {
                return Err(wrong("invalid URI for request"));
            }
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        let mut path = rest;
        if let Some(after) = rest.strip_prefix("//").filter(|_| !url.scheme.is_empty()) {
            let (authority, below) = after.split_at(after.find('/').unwrap_or(after.len()));
            let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
            (url.user, url.host) = (user.to_owned(), host_of(host).map_err(|why| wrong(&why))?);
            path = below;
        }
        if let Some(escape) = bad_escape(path) {
            return Err(wrong(&format!("invalid URL escape {escape:?}")));
        }
        path.clone_into(&mut url.path);
        Ok(url)
    }

    /// Returns the host without brackets, and the port; empty for none.
    #[cfg(feature = "cel")]
    pub(crate) fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
            _ => (&*self.host, ""),
        };
        (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
    }
}

/// Returns the scheme, which may be missing, and the rest. `None` if there is nothing before the colon.
fn scheme(text: &str) -> Option<(String, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((text[..at].to_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Some((String::new(), text))
}

fn host_of(host: &str) -> Result<String, String> {
    let port = match host.rfind(']') {
        Some(end) if host.starts_with('[') => &host[end + 1..],
        None if host.starts_with('[') => return Err("missing ']' in host".to_owned()),
        _ => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let is_port = port.strip_prefix(':').map_or(port.is_empty(), |port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {port:?} after host"));
    }
    let is_allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"".contains(c);
    if let Some(c) = host.chars().find(|c| !is_allowed(*c)) {
        return Err(format!("invalid character {:?} in host name", c.to_string()));
    }
    Ok(host.to_owned())
}

fn bad_escape(text: &str) -> Option<String> {
    let is_whole = |escape: &str| escape.len() == 3 && escape.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit());
    let mut escapes = text.match_indices('%').map(|(at, _)| text[at..].chars().take(3).collect::<String>());
    escapes.find(|escape| !is_whole(escape))
}
