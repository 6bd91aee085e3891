//! The tables of `kopfd status`.

use std::fmt::Write as _;

use crate::cli::output::enumerated;
use crate::engines::status::{
    HandlerStatus, KindStatus, LeadingStatus, OperatorStatus, ProcessStatus, RolledBack, SideStatus, TrialStatus,
    WatchCounts,
};
use crate::kit::counted;

/// Returns the state of a process as text.
pub(super) fn of(status: &ProcessStatus, at: &str) -> String {
    let readiness = if status.unready.is_empty() { "ready" } else { "not ready" };
    let mut text = format!("kopfd {} at {at}: {readiness}\n", status.version);
    let reasons = status.unready.iter().map(|reason| format!("  {reason}\n"));
    text.extend(reasons.chain(status.notes.iter().map(|note| format!("  note: {note}\n"))));
    for operator in &status.operators {
        text += "\n";
        text += &of_operator(operator);
    }
    if status.operators.is_empty() {
        text += "\nNo operator has started.\n";
    }
    text
}

fn of_operator(operator: &OperatorStatus) -> String {
    let OperatorStatus {
        name,
        revision,
        since,
        paused,
        is_last_load_successful,
        kinds,
        handlers,
        queues,
        trial,
        rolled_back,
        leading,
    } = operator;
    let mut text = format!("operator {name}: revision {revision} since {since}\n");
    if !paused.is_empty() {
        let _ = writeln!(text, "  paused because of {}", paused.join(", "));
    }
    if !is_last_load_successful {
        text += "  the files could not be loaded at the last attempt\n";
    }
    // A string takes any text.
    if let Some(leading) = leading {
        let _ = writeln!(text, "  {}", of_election(leading));
    }
    if let Some(TrialStatus { revision, percent, since, until, new, old }) = trial {
        let _ = writeln!(
            text,
            "  on trial: revision {revision} for {percent} % of the objects since {since}, until {until}"
        );
        let _ = writeln!(text, "    it: {}; the one in service: {}", of_side(new), of_side(old));
    }
    if let Some(RolledBack { revision, at, reason }) = rolled_back {
        let _ = writeln!(text, "  rolled back: revision {revision} at {at}: {reason}");
    }
    let _ = writeln!(
        text,
        "  {} queued, {} in work, {} running, {} waiting for a retry",
        counted(queues.pending, "event"),
        counted(queues.workers, "object"),
        counted(queues.running, "call"),
        counted(queues.waiting, "object"),
    );
    let head = ["KIND", "OBJECTS", "QUEUED", "WATCHES", "REVISIONS"].map(str::to_owned).to_vec();
    text += &table(std::iter::once(head).chain(kinds.iter().map(of_kind)).collect());
    let head = ["HANDLER", "ON", "CALLS", "RETRIED", "FAILED", "RUNNING"].map(str::to_owned).to_vec();
    text + &table(std::iter::once(head).chain(handlers.iter().map(of_handler)).collect())
}

fn of_election(leading: &LeadingStatus) -> String {
    let LeadingStatus { lease, identity, role, holder, transitions } = leading;
    let leader = match holder.as_str() {
        "" => "nobody leads".to_owned(),
        holder if holder == identity => "it leads".to_owned(),
        holder => format!("{holder} leads"),
    };
    format!(
        "{role} {identity}: {leader} by the lease {lease}, after {}",
        counted(usize::try_from(*transitions).unwrap_or_default(), "change")
    )
}

fn of_side(side: &SideStatus) -> String {
    let SideStatus { calls, errors, writes, written } = *side;
    format!("{calls} calls, {errors} failed, {writes} writes to {written} objects")
}

fn of_kind(kind: &KindStatus) -> Vec<String> {
    let WatchCounts { listing, watching, failing, paused } = kind.watches;
    let watches = [(listing, "listing"), (watching, "watching"), (failing, "failing"), (paused, "paused")];
    let watches: Vec<String> =
        watches.into_iter().filter(|(count, _)| *count > 0).map(|(count, state)| format!("{count} {state}")).collect();
    let revisions: Vec<String> =
        kind.revisions.iter().map(|(revision, objects)| format!("{revision}: {objects}")).collect();
    vec![
        kind.resource.clone(),
        kind.objects.to_string(),
        kind.queued.to_string(),
        enumerated(&watches),
        revisions.join(", "),
    ]
}

fn of_handler(handler: &HandlerStatus) -> Vec<String> {
    let HandlerStatus { id, on, calls, retried, failed, running } = handler;
    vec![id.clone(), on.join(", "), calls.to_string(), retried.to_string(), failed.to_string(), running.to_string()]
}

/// Returns rows in columns; without more than their head, nothing.
fn table(rows: Vec<Vec<String>>) -> String {
    if rows.len() < 2 {
        return String::new();
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("  {}\n", cells.join("  ").trim_end())
    };
    std::iter::once("\n".to_owned()).chain(rows.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::engines::status::QueueStatus;

    use super::*;

    fn operator() -> OperatorStatus {
        let kind = KindStatus {
            resource: "configmaps.v1".to_owned(),
            objects: 12,
            revisions: BTreeMap::from([("0123456789ab".to_owned(), 12)]),
            watches: WatchCounts { watching: 2, failing: 1, ..WatchCounts::default() },
            queued: 3,
            workers: 1,
        };
        let on = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let handlers = vec![
            HandlerStatus {
                id: "made".to_owned(),
                on: on(&["create", "update"]),
                calls: 40,
                retried: 2,
                failed: 1,
                running: 1,
            },
            HandlerStatus { id: "nightly".to_owned(), on: on(&["schedule"]), ..HandlerStatus::default() },
        ];
        OperatorStatus {
            name: "demo".to_owned(),
            revision: "0123456789ab".to_owned(),
            since: "2020-01-01T00:00:00Z".to_owned(),
            paused: Vec::new(),
            is_last_load_successful: true,
            kinds: vec![kind],
            handlers,
            queues: QueueStatus { pending: 3, workers: 1, running: 1, waiting: 2 },
            trial: None,
            rolled_back: None,
            leading: None,
        }
    }

    #[test]
    fn the_role_of_a_replica_is_shown_with_the_leader() {
        let text = |text: &str| text.to_owned();
        let leading = LeadingStatus {
            lease: text("ops/demo"),
            identity: text("a_1"),
            role: text("standby"),
            holder: text("b_2"),
            transitions: 3,
        };
        assert_eq!(of_election(&leading), "standby a_1: b_2 leads by the lease ops/demo, after 3 changes");
        let own = LeadingStatus { role: text("leader"), holder: text("a_1"), transitions: 1, ..leading.clone() };
        assert_eq!(of_election(&own), "leader a_1: it leads by the lease ops/demo, after 1 change");
        assert_eq!(
            of_election(&LeadingStatus { holder: text(""), ..leading.clone() }),
            "standby a_1: nobody leads by the lease ops/demo, after 3 changes"
        );
        let shown = of_operator(&OperatorStatus { leading: Some(leading), ..operator() });
        assert!(shown.contains("\n  standby a_1: b_2 leads"), "{shown}");
    }

    #[test]
    fn a_trial_is_shown_with_both_sides_and_a_rollback_with_its_reason() {
        let text = |text: &str| text.to_owned();
        let trial = TrialStatus {
            revision: text("ba9876543210"),
            percent: 5,
            since: text("2020-01-01T00:00:00Z"),
            until: text("2020-01-01T00:10:00Z"),
            new: SideStatus { calls: 4, errors: 1, writes: 3, written: 2 },
            old: SideStatus { calls: 80, errors: 2, writes: 70, written: 60 },
        };
        let reason = text("3 of 3 calls (100 %) have failed, before 0 of 60 calls (0 %)");
        let rolled_back = RolledBack { revision: text("aaaaaaaaaaaa"), at: text("2019-12-31T00:00:00Z"), reason };
        let operator = OperatorStatus { trial: Some(trial), rolled_back: Some(rolled_back), ..operator() };
        let expected = "\
operator demo: revision 0123456789ab since 2020-01-01T00:00:00Z
  on trial: revision ba9876543210 for 5 % of the objects since 2020-01-01T00:00:00Z, until 2020-01-01T00:10:00Z
    it: 4 calls, 1 failed, 3 writes to 2 objects; the one in service: 80 calls, 2 failed, 70 writes to 60 objects
  rolled back: revision aaaaaaaaaaaa at 2019-12-31T00:00:00Z: 3 of 3 calls (100 %) have failed, before 0 of 60 calls (0 %)
  3 events queued";
        assert!(of_operator(&operator).starts_with(expected), "{}", of_operator(&operator));
    }

    #[test]
    fn an_operator_is_shown_with_its_kinds_handlers_and_queues() {
        let status =
            ProcessStatus { version: "1.2.3".to_owned(), operators: vec![operator()], ..ProcessStatus::default() };
        let expected = "\
kopfd 1.2.3 at http://localhost:8080/status: ready

operator demo: revision 0123456789ab since 2020-01-01T00:00:00Z
  3 events queued, 1 object in work, 1 call running, 2 objects waiting for a retry

  KIND           OBJECTS  QUEUED  WATCHES                   REVISIONS
  configmaps.v1  12       3       2 watching and 1 failing  0123456789ab: 12

  HANDLER  ON              CALLS  RETRIED  FAILED  RUNNING
  made     create, update  40     2        1       1
  nightly  schedule        0      0        0       0
";
        assert_eq!(of(&status, "http://localhost:8080/status"), expected);
    }

    #[test]
    fn reasons_notes_and_failed_loads_are_shown() {
        let status = ProcessStatus {
            version: "1.2.3".to_owned(),
            unready: vec!["operator 'other' is starting".to_owned()],
            notes: vec!["the files have errors".to_owned()],
            operators: vec![OperatorStatus {
                is_last_load_successful: false,
                kinds: Vec::new(),
                handlers: Vec::new(),
                ..operator()
            }],
            ..ProcessStatus::default()
        };
        let expected = "\
kopfd 1.2.3 at x: not ready
  operator 'other' is starting
  note: the files have errors

operator demo: revision 0123456789ab since 2020-01-01T00:00:00Z
  the files could not be loaded at the last attempt
  3 events queued, 1 object in work, 1 call running, 2 objects waiting for a retry
";
        assert_eq!(of(&status, "x"), expected);
        let empty = ProcessStatus { version: "1.2.3".to_owned(), ..ProcessStatus::default() };
        assert_eq!(of(&empty, "x"), "kopfd 1.2.3 at x: ready\n\nNo operator has started.\n");
    }
}
