//! The newest received state of an object, for calls that outlive the event they began with.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::object::Body;

/// How long a call or a task must rest for its object to be packed. Packing and unpacking take some ten microseconds
/// for each KiB.
const LONG_REST: Duration = Duration::from_secs(10);

/// The newest received state of an object. While its call or task rests, it takes a quarter of the memory.
#[derive(Debug)]
pub struct LiveBody(Mutex<State>);

#[derive(Debug)]
enum State {
    Unpacked(Body),
    /// As JSON text.
    Packed(Box<[u8]>),
}

impl LiveBody {
    /// Returns a cell with the current state.
    pub fn new(body: Body) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::Unpacked(body))))
    }

    /// Replaces the state.
    pub fn set(&self, body: Body) {
        let mut state = self.0.lock();
        *state = match &*state {
            State::Unpacked(_) => State::Unpacked(body),
            // It still rests.
            State::Packed(_) => State::packed(&body),
        };
    }

    /// Returns the state.
    ///
    /// # Panics
    /// Never: packed values can be unpacked.
    pub fn get(&self) -> Body {
        let mut state = self.0.lock();
        let body = match &*state {
            State::Unpacked(body) => return body.clone(),
            State::Packed(text) => {
                Body::from(serde_json::from_slice::<serde_json::Value>(text).expect("a packed object is JSON"))
            }
        };
        *state = State::Unpacked(body.clone());
        body
    }

    /// Packs the state for a rest of this length, unless it is short; `None` is a rest without an end.
    pub fn rest(&self, length: Option<Duration>) {
        if length.is_some_and(|length| length < LONG_REST) {
            return;
        }
        let mut state = self.0.lock();
        if let State::Unpacked(body) = &*state {
            *state = State::packed(body);
        }
    }
}

impl State {
    fn packed(body: &Body) -> Self {
        Self::Packed((**body).to_string().into_bytes().into_boxed_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_packed_state_is_the_same_and_follows_the_object() {
        let (first, second) = (json!({"spec": {"x": 0.1, "y": u64::MAX, "z": "é\u{0}"}}), json!({"spec": {"x": 2}}));
        let live = LiveBody::new(Body::from(first.clone()));
        live.rest(Some(Duration::from_secs(1)));
        assert!(matches!(&*live.0.lock(), State::Unpacked(_)));
        live.rest(None);
        assert!(matches!(&*live.0.lock(), State::Packed(_)));
        assert_eq!(*live.get(), first);
        live.rest(Some(Duration::from_mins(1)));
        live.set(Body::from(second.clone()));
        assert!(matches!(&*live.0.lock(), State::Packed(_)));
        assert_eq!(*live.get(), second);
        live.set(Body::from(first.clone()));
        assert!(matches!(&*live.0.lock(), State::Unpacked(_)));
        assert_eq!(*live.get(), first);
    }
}
