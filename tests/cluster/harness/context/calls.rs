//! The recorded calls of a case's handlers, kept up to date by a watch: a list of all of them for each look would take
//! the server longer than the work of the operators.

use std::cell::{OnceCell, RefCell};
use std::time::Duration;

use super::Call;
use crate::harness::client::{Client, Watch};
use crate::harness::wait::eventually;

/// How long the watch may stay behind the store.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The calls, each of which is an object that is never changed.
#[derive(Default)]
pub(super) struct Calls {
    watch: OnceCell<Watch>,
    seen: RefCell<Vec<Call>>,
}

impl Calls {
    /// Returns all calls in a collection so far, in their order.
    pub(super) fn read(&self, client: &Client, collection: &str) -> Vec<Call> {
        // From this version on, the server sends what is there already.
        let watch = self.watch.get_or_init(|| client.watch(collection, "0"));
        let count = count(client, collection);
        let mut seen = self.seen.borrow_mut();
        eventually(&format!("the watch of {collection} has {count} calls"), TIMEOUT, || {
            let next = seen.len();
            seen.extend(watch.events_from(next).iter().map(|event| Call::of(&event["object"])));
            (seen.len() >= count).then_some(())
        });
        seen.sort_by_key(|call| call.revision);
        seen.clone()
    }
}

/// Returns the number of objects in a collection by its store.
fn count(client: &Client, collection: &str) -> usize {
    let list = client
        .request("GET", &format!("{collection}?limit=1"), "application/json", None)
        .unwrap_or_else(|failure| panic!("GET {collection}: {failure}"));
    let further = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    let shown = list["items"].as_array().map_or(0, Vec::len);
    let has_more = list["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty());
    assert_eq!(has_more, further > 0, "the server tells how many objects of {collection} follow");
    shown + usize::try_from(further).expect("a small number")
}
