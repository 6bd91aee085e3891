//! Compares the embedded server with the recorded answers of `tests/differ`, without a real server.

mod compare;
mod differences;

use crate::differ::answers;
use crate::differ::case;
use crate::differ::embedded::Embedded;
use crate::differ::run::run;
use compare::{Verdicts, compare};
use differences::DIFFERENCES;

#[test]
fn every_reason_is_in_the_documentation() {
    let page = include_str!("../../../docs/apiserver-differences.md");
    for difference in DIFFERENCES {
        assert!(page.contains(&format!("\n* {}\n", difference.reason)), "{}", difference.reason);
    }
}

#[test]
fn every_difference_names_its_case_and_its_step() {
    for (case, at) in DIFFERENCES.iter().flat_map(|difference| difference.places) {
        let is_a_step = at.split_once('/').is_some_and(|(step, rest)| step.parse::<usize>().is_ok() && !rest.is_empty());
        assert!(!case.contains('*') && is_a_step, "{case}: {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_those_of_a_real_server() {
    let is_chosen = case::chosen();
    let mut verdicts = Verdicts::default();
    for (topic, cases) in case::all() {
        let recorded = answers::read(&topic);
        for case in cases.iter().filter(|case| is_chosen(case)) {
            let ours = run(&Embedded::new(), case).await;
            match recorded.get(&case.name) {
                Some(real) => compare(&mut verdicts, case, real, &ours),
                None => verdicts.complain(&format!("{topic}: {}: no answers were recorded", case.name)),
            }
        }
        for name in recorded.keys().filter(|name| !cases.iter().any(|case| case.name == **name)) {
            verdicts.complain(&format!("{topic}: {name}: answers to no case"));
        }
    }
    let counted = format!("{} cases are the same, {} differ where they may", verdicts.same, verdicts.excused);
    verdicts.conclude().unwrap_or_else(|report| panic!("\n{report}\n{counted}"));
}
