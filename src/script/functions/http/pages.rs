//! `http::pages`: the items of all pages of a list.

use rhai::{Array, Dynamic, NativeCallContext};
use serde_json::Value;
use url::Url;

use super::answer;
use super::auth::{self, Auth};
use super::given::Given;
use super::hosts::{Thrown, address, thrown};
use super::request::Request;
use crate::script::language::convert;
use crate::script::limits::Limit;
use crate::script::outside::{HttpAnswer, HttpError, HttpProblem};
use crate::script::runtime::bounded::{self, Parsed};
use crate::script::runtime::context::Context;

/// The pages that are read by default.
const PAGES: usize = 1_000;

/// The places of the items and of the next page's address in each page.
pub(super) struct Pages {
    items: Option<String>,
    cursor: Option<String>,
    param: String,
    max: usize,
}

impl Pages {
    /// The options besides those of requests.
    pub(super) const OPTIONS: [&'static str; 4] = ["cursor", "items", "pages", "param"];

    /// Reads the options.
    ///
    /// # Errors
    /// If one is invalid.
    pub(super) fn read(options: &Given) -> Result<Self, Thrown> {
        Ok(Self {
            items: options.text("items")?,
            cursor: options.text("cursor")?,
            param: options.text("param")?.unwrap_or_else(|| "cursor".to_owned()),
            max: options.count("pages", PAGES, 10_000)?,
        })
    }

    /// Returns the address of the page after another one; `None` after the last page.
    fn next(&self, url: &Url, answer: &HttpAnswer, content: &Value) -> Result<Option<Url>, String> {
        let unreadable = |error| format!("the address of the next page cannot be read: {error}");
        let Some(path) = &self.cursor else {
            let links = answer.headers.iter().filter(|(name, _)| name == "link");
            let next = links.into_iter().find_map(|(_, value)| link(value));
            return next.map(|next| url.join(&next).map_err(unreadable)).transpose();
        };
        let next = match at(content, path) {
            Value::String(text) if !text.is_empty() => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Ok(None),
        };
        if next.starts_with("https://") || next.starts_with("http://") || next.starts_with('/') {
            return url.join(&next).map(Some).map_err(unreadable);
        }
        let mut following = url.clone();
        let others: Vec<(String, String)> =
            url.query_pairs().into_owned().filter(|(name, _)| *name != self.param).collect();
        following.query_pairs_mut().clear().extend_pairs(others).append_pair(&self.param, &next);
        Ok(Some(following))
    }
}

/// `http::pages(url, [options])`: the items of all pages.
pub(super) fn collect(
    native: &NativeCallContext<'_>,
    context: &Context,
    mut request: Request,
    auth: &Auth,
    pages: &Pages,
) -> Result<Dynamic, Thrown> {
    let max_items = native.engine().max_array_size();
    let mut all = Array::new();
    for _ in 0..pages.max {
        let answered = auth::perform(context, &request, auth)?;
        if answered.answer.status >= 400 {
            return Err(answer::raised(&request, &answered.answer));
        }
        let failed = |what: &str| {
            let message = format!("{}: {what}", request.title());
            thrown(HttpError { problem: HttpProblem::Broken, message }, Some(answered.answer.status))
        };
        let parsed = serde_json::from_slice::<Parsed<true>>(&answered.answer.body);
        bounded::pause()?;
        let Parsed(content) = parsed.map_err(|_| failed("the page is no JSON"))?;
        let items = pages.items.as_deref().map_or(&content, |path| at(&content, path));
        let items =
            items.as_array().ok_or_else(|| failed("the page has no list of items: the option `items` is its path"))?;
        if max_items > 0 && all.len() + items.len() > max_items {
            return Err(bounded::refused(Limit::ArraySize));
        }
        all.extend(items.iter().map(convert::to_dynamic));
        match pages.next(&answered.url, &answered.answer, &content).map_err(|what| failed(&what))? {
            None => return Ok(all.into()),
            Some(next) => request.url = address(&request.function, next.as_str())?,
        }
    }
    let message = format!("{}: there are more than {} pages (the option `pages`)", request.title(), pages.max);
    Err(thrown(HttpError { problem: HttpProblem::TooLarge, message }, None))
}

/// Returns a part of a document by its keys, joined with dots.
fn at<'v>(content: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(content, |value, key| &value[key])
}

/// Returns the address with the relation `next` in a header `Link` (RFC 8288).
fn link(header: &str) -> Option<String> {
    let mut rest = header;
    // Addresses may contain commas, and so may quoted parameters.
    while let Some((address, after)) = rest.split_once('<').and_then(|(_, after)| after.split_once('>')) {
        let mut is_quoted = false;
        let end = after.find(|c| {
            is_quoted ^= c == '"';
            c == ',' && !is_quoted
        });
        let (parameters, following) = after.split_at(end.unwrap_or(after.len()));
        if parameters.split(';').any(is_next) {
            return Some(address.to_owned());
        }
        rest = following;
    }
    None
}

fn is_next(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
    name.trim().eq_ignore_ascii_case("rel") && relations.any(|relation| relation.eq_ignore_ascii_case("next"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_link_is_found_among_others() {
        let header = "<https://a.com/?page=1>; rel=\"prev\", </?page=3>; title=x; rel=\"next last\"";
        assert_eq!(link(header).as_deref(), Some("/?page=3"));
        assert_eq!(link("<x>; rel=next").as_deref(), Some("x"));
        assert_eq!(link("<x?a=1,2>; title=\"a, <b>\"; rel=last, <y?a=1,2>; rel=next").as_deref(), Some("y?a=1,2"));
        for none in ["<x>; rel=last", "", "x; rel=next", "<x"] {
            assert_eq!(link(none), None, "{none}");
        }
    }
}
