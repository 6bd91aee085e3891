//! The memory of kopfd with 10,000 idle objects of 5 KiB.

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

const OBJECTS: usize = 10_000;

const GOAL: f64 = 600.0;

/// Time limit of a start with all objects until it has settled.
const REST: Duration = Duration::from_secs(20);

/// Measures, and prints a table.
pub(crate) fn measure(cluster: &Cluster, directory: &Path, ratios: &mut Ratios) {
    let group = "idle.bench.kopfd.dev";
    let load = Load::new(cluster.client(), group);
    let directory = directory.join(group);
    fs::create_dir_all(&directory).expect("the directory of an operator can be made");
    let start =
        |options: &str| Program::start(&mut kopfd(&cluster.tools().kopfd, cluster, group, &directory, options), &directory.join("log"));
    let rested = |program: &Program| {
        sleep(REST);
        program.resident()
    };
    let nothing = rested(&start(""));
    let objects = count(OBJECTS);
    load.make("idle", objects, Pace::Burst, SIZE - 600);
    let unmatched = rested(&start(", labels: {app: chosen}"));
    let first = start("");
    load.wait();
    let handling = rested(&first);
    drop(first);
    let handled = rested(&start(""));
    let figures = [
        ("no objects", nothing),
        ("10,000 matched by nothing", unmatched),
        ("10,000 handled by this process", handling),
        ("10,000 handled earlier", handled),
    ];
    let mut rows = vec![row(["", "resident MB", "bytes each", "goal", ""])];
    for (title, resident) in figures {
        let each = resident.saturating_sub(nothing) as f64 / objects as f64;
        if resident != nothing {
            ratios.add_lower(format!("idle objects, {title}: bytes beside the goal"), each / GOAL);
        }
        rows.push(row([title, &format!("{:.1}", megabytes(resident)), &format!("{each:.0}"), "600", &verdict(each <= GOAL)]));
    }
    println!();
    print(&rows);
}
