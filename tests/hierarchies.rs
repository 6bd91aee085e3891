//! Runs the golden vectors of the family of `adopt`.

#[path = "conformance/hierarchies.rs"]
mod hierarchies;

#[test]
fn every_case_of_the_hierarchies_passes() {
    let text = include_str!("conformance/vectors/hierarchies.json");
    let cases: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
    let failed: Vec<String> =
        cases.iter().filter_map(|case| hierarchies::run(case).err().map(|why| format!("{}: {why}", case["name"]))).collect();
    assert!(failed.is_empty(), "{} of {} cases fail:\n{}", failed.len(), cases.len(), failed.join("\n"));
}
