//! The record of the latest requests with their answers, for tests and for people.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde::Serialize;

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequest {
    /// Its number, in the order of arrival.
    pub number: u64,
    /// When it arrived.
    pub at: Timestamp,
    /// The HTTP method.
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// The verb of the API.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name; empty for non-resource requests.
    pub resource: String,
    /// The subresource; empty for none.
    pub subresource: String,
    /// The namespace; empty for none.
    pub namespace: String,
    /// The object's name; empty for collections.
    pub name: String,
    /// The user; empty if unauthenticated.
    pub user: String,
    /// The user agent.
    pub user_agent: String,
    /// The rule that fired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<u64>,
    /// The status of the answer; `None` before the answer, and if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The milliseconds until the answer began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// The number of events sent to a watch.
    pub events: u64,
}

/// The record.
#[derive(Debug, Default)]
pub struct RequestLog {
    /// Limit of recorded requests that have ended; zero disables the record.
    limit: usize,
    last: u64,
    /// Requests in flight: not answered yet, and open watches.
    open: BTreeMap<u64, RecordedRequest>,
    ended: VecDeque<RecordedRequest>,
}

impl RequestLog {
    /// Returns an empty record with a limit.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Tells whether requests are recorded.
    pub fn is_enabled(&self) -> bool {
        self.limit > 0
    }

    /// Records a request, and returns its number.
    pub fn begin(&mut self, request: RecordedRequest) -> u64 {
        self.last += 1;
        self.open.insert(self.last, RecordedRequest { number: self.last, ..request });
        self.last
    }

    /// Records the answer to a request; a watch continues.
    pub fn note_answer(&mut self, number: u64, status: u16, now: Timestamp) {
        if let Some(request) = self.open.get_mut(&number) {
            request.status = Some(status);
            request.duration_ms = Some(now.as_millisecond() - request.at.as_millisecond());
        }
    }

    /// Records events of a watch.
    pub fn note_events(&mut self, number: u64, count: u64) {
        if let Some(request) = self.open.get_mut(&number) {
            request.events += count;
        }
    }

    /// Records the end of a request.
    pub fn end(&mut self, number: u64) {
        let Some(request) = self.open.remove(&number) else { return };
        if self.ended.len() >= self.limit {
            self.ended.pop_front();
        }
        self.ended.push_back(request);
    }

    /// Returns the requests in the order of arrival.
    pub fn all(&self) -> Vec<RecordedRequest> {
        let mut all: Vec<RecordedRequest> = self.ended.iter().chain(self.open.values()).cloned().collect();
        all.sort_by_key(|request| request.number);
        all
    }

    /// Tells whether no request is in flight.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the open watches.
    pub fn watchers(&self) -> impl Iterator<Item = &RecordedRequest> {
        self.open.values().filter(|request| request.verb == "watch" && request.status.is_some())
    }

    /// Forgets the ended requests.
    pub fn forget(&mut self) {
        self.ended.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_requests_are_kept_in_their_order() {
        let mut requests = RequestLog::with_limit(2);
        let numbers: Vec<u64> = (0..4)
            .map(|_| requests.begin(RecordedRequest { verb: "watch".into(), ..RecordedRequest::default() }))
            .collect();
        requests.note_answer(numbers[0], 200, Timestamp::from_millisecond(5).unwrap());
        for number in [numbers[3], numbers[1], numbers[2]] {
            requests.end(number);
        }
        requests.note_events(numbers[0], 3);
        let kept: Vec<u64> = requests.all().iter().map(|request| request.number).collect();
        assert_eq!(kept, [1, 2, 3]);
        assert_eq!(
            requests.watchers().map(|request| (request.events, request.duration_ms)).collect::<Vec<_>>(),
            [(3, Some(5))]
        );
        requests.forget();
        assert_eq!(requests.all().len(), 1);
    }
}
