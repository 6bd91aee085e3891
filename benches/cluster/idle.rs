//! The memory of kopfd with 10,000 and 50,000 idle objects of 5 KiB: what each further object takes, and the fixed
//! part.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::engine::kopfd;
use super::harness::Cluster;
use super::load::{Load, Pace};
use super::support::objects::SIZE;
use super::support::process::Program;
use super::support::ratios::{Ratios, count};
use super::support::table::{megabytes, print, row, verdict};

const FEW: usize = 10_000;

const MANY: usize = 50_000;

const GOAL: f64 = 600.0;

/// Time limit of a start with all objects until it has settled: the list alone takes up to twenty seconds.
const REST: Duration = Duration::from_secs(45);

/// The resident memory of operators with some objects, in bytes.
struct Resident {
    unmatched: u64,
    handling: u64,
    handled: u64,
}

/// Measures, and prints a table.
pub(crate) fn measure(cluster: &Cluster, directory: &Path, ratios: &mut Ratios) {
    let group = "idle.bench.kopfd.dev";
    let load = Load::new(cluster.client(), group);
    let (log, directory) = (directory.join("idle.log"), directory.join(group));
    fs::create_dir_all(&directory).expect("the directory of an operator can be made");
    let start =
        |options: &str| Program::start(&mut kopfd(&cluster.tools().kopfd, cluster, group, &directory, options), &log);
    let rested = |program: &Program| {
        sleep(REST);
        program.resident()
    };
    let resident = |prefix: &str, added: usize| {
        load.make(prefix, added, Pace::Burst, SIZE - 600);
        let unmatched = rested(&start(", labels: {app: chosen}"));
        let first = start("");
        load.wait();
        let handling = rested(&first);
        drop(first);
        Resident { unmatched, handling, handled: rested(&start("")) }
    };
    let nothing = rested(&start(""));
    let (few_objects, many_objects) = (count(FEW), count(MANY));
    let few = resident("few", few_objects);
    let many = resident("many", many_objects - few_objects);
    // The first process has handled the few, the second one only the rest: the difference is not that of objects.
    let handling_each = many.handling.saturating_sub(nothing) as f64 / many_objects as f64;
    let mut rows = vec![row(["", "10,000, MB", "50,000, MB", "fixed, MB", "bytes each", "goal", ""])];
    let figures =
        [("matched by nothing", few.unmatched, many.unmatched), ("handled earlier", few.handled, many.handled)];
    for (title, few, many) in figures {
        let each = many.saturating_sub(few) as f64 / (many_objects - few_objects) as f64;
        let fixed = (few.saturating_sub(nothing) as f64 - each * few_objects as f64).max(0.0);
        ratios.add_lower(format!("idle objects, {title}: bytes beside the goal"), each / GOAL);
        let fixed = format!("{:.1}", fixed / 1e6);
        let (few, many) = (format!("{:.1}", megabytes(few)), format!("{:.1}", megabytes(many)));
        rows.push(row([title, &few, &many, &fixed, &format!("{each:.0}"), "600", &verdict(each <= GOAL)]));
    }
    let (few, many) = (format!("{:.1}", megabytes(few.handling)), format!("{:.1}", megabytes(many.handling)));
    rows.push(row(["handled by this process", &few, &many, "", &format!("{handling_each:.0}"), "", ""]));
    println!("\nwithout objects: {:.1} MB", megabytes(nothing));
    print(&rows);
}
