//! Very many daemons and timers: the memory, the threads and the processor time of an operator with them, how late the
//! timers are, and how long a start and a stop of all take.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::engine::{Engine, write};
use super::harness::Cluster;
use super::load::{Load, Pace};
use super::support::process::Program;
use super::support::ratios::{Ratios, count};
use super::support::table::{megabytes, print, row, verdict};

/// Objects with a daemon or a timer each.
const OBJECTS: usize = 10_000;

/// kopf gets this many first, and then twice as many as long as it bears them.
const FEWEST_OF_KOPF: usize = 250;

/// How long the running operator is measured.
const PERIOD: Duration = Duration::from_secs(10);

/// Time for the start of all tasks. The first start also adds the finalizers.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The latest that a timer is recorded with, in milliseconds.
const LATEST: usize = 1_000;

/// What each object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// A daemon that waits for its stop.
    Daemon,
    /// A timer with an interval of one second.
    Timer,
}

impl Task {
    fn title(self) -> &'static str {
        match self {
            Self::Daemon => "daemons",
            Self::Timer => "timers",
        }
    }
}

/// The figures of one operator.
struct Figures {
    objects: usize,
    start: Duration,
    stop: Duration,
    resident: u64,
    threads: usize,
    /// The used share of one processor.
    processor: f64,
    /// The 99th percentile of the lateness, in milliseconds.
    lateness: Option<usize>,
}

impl Figures {
    /// Tells whether an operator could have more objects: it has processor time left, and its timers are not late.
    fn are_borne(&self) -> bool {
        self.processor < 0.9 && self.lateness.is_none_or(|lateness| lateness <= 50)
    }
}

/// Measures, and prints a table.
pub(crate) fn measure(cluster: &Cluster, has_kopf: bool, directory: &Path, ratios: &mut Ratios) {
    let mut rows =
        vec![row(["", "start, s", "stop, s", "resident, MB", "threads", "processors", "p99 of lateness, ms", ""])];
    for task in [Task::Daemon, Task::Timer] {
        let figures = play(cluster, Engine::Kopfd, task, count(OBJECTS), directory);
        rows.push(line(Engine::Kopfd, task, &figures));
        let goals = [
            ("start and stop, beside the goal", figures.start.max(figures.stop).as_secs_f64() / 2.0),
            ("memory, beside the goal", megabytes(figures.resident) / 300.0),
        ];
        for (goal, ratio) in goals {
            ratios.add_lower(format!("{OBJECTS} {}, {goal}", task.title()), ratio);
        }
        if has_kopf {
            let mut objects = count(FEWEST_OF_KOPF);
            loop {
                let figures = play(cluster, Engine::Kopf, task, objects, directory);
                rows.push(line(Engine::Kopf, task, &figures));
                if !figures.are_borne() || objects >= count(OBJECTS) {
                    break;
                }
                objects = (2 * objects).min(count(OBJECTS));
            }
        }
    }
    println!();
    print(&rows);
}

fn line(engine: Engine, task: Task, figures: &Figures) -> Vec<String> {
    let title = format!("{}, {} {}", engine.title(), figures.objects, task.title());
    let seconds = |duration: Duration| format!("{:.2}", duration.as_secs_f64());
    let is_quick = figures.start.max(figures.stop) <= Duration::from_secs(2);
    let is_small = megabytes(figures.resident) <= 300.0 && figures.threads <= 16 && figures.processor < 1.0;
    let is_exact = figures.lateness.is_none_or(|lateness| lateness <= 50);
    let goals = if engine == Engine::Kopfd { verdict(is_quick && is_small && is_exact) } else { String::new() };
    vec![
        title,
        seconds(figures.start),
        seconds(figures.stop),
        format!("{:.1}", megabytes(figures.resident)),
        figures.threads.to_string(),
        format!("{:.2}", figures.processor),
        figures.lateness.map(|lateness| lateness.to_string()).unwrap_or_default(),
        goals,
    ]
}

fn play(cluster: &Cluster, engine: Engine, task: Task, objects: usize, directory: &Path) -> Figures {
    let group = format!("{}-{}-{objects}.background.kopfd.dev", engine.title(), task.title());
    let (log, directory) = (directory.join(format!("{group}.log")), directory.join(&group));
    fs::create_dir_all(&directory).expect("the directory of an operator can be made");
    let load = Load::new(cluster.client(), &group);
    load.make("thing", objects, Pace::Burst, 0);
    let start = || {
        let began = Instant::now();
        let mut command = match engine {
            Engine::Kopf => kopf(cluster, &group, task, objects, &directory),
            _ => kopfd(cluster, &group, task, objects, &directory),
        };
        let program = Program::start(&mut command, &log);
        while !fs::read_to_string(&log).is_ok_and(|text| text.contains("All have begun.")) {
            assert!(began.elapsed() < TIMEOUT, "not all tasks have begun; see {}", log.display());
            sleep(Duration::from_millis(10));
        }
        (program, began.elapsed())
    };
    // The first operator adds the finalizers.
    start().0.stop();
    let (mut program, started_in) = start();
    let before = program.cpu();
    sleep(PERIOD);
    let processor = program.cpu().saturating_sub(before).as_secs_f64() / PERIOD.as_secs_f64();
    let (resident, threads) = (program.resident(), program.threads());
    let stopping = Instant::now();
    program.stop();
    let stop = stopping.elapsed();
    let lateness = (task == Task::Timer).then(|| lateness(&fs::read_to_string(&log).expect("the log can be read")));
    println!("{} {}: done", engine.title(), task.title());
    Figures { objects, start: started_in, stop, resident, threads, processor, lateness }
}

/// Returns the 99th percentile of the counts that an operator logs at its end: how often a timer was so many
/// milliseconds late.
fn lateness(log: &str) -> usize {
    let line = log.lines().find_map(|line| line.split_once("late: ")).expect("the operator reports at its end").1;
    let counts: Vec<usize> = line.split(' ').map(|count| count.trim().parse().expect("a count")).collect();
    assert_eq!(counts.len(), LATEST + 1);
    let limit = counts.iter().sum::<usize>() * 99 / 100;
    let mut sum = 0;
    counts
        .iter()
        .position(|count| {
            sum += count;
            sum > limit
        })
        .unwrap_or(LATEST)
}

fn kopfd(cluster: &Cluster, group: &str, task: Task, objects: usize, directory: &Path) -> Command {
    let list = match task {
        Task::Daemon => "daemons: [{fn: wait}]",
        Task::Timer => "timers: [{fn: tick, interval: 1s, sharp: true}]",
    };
    let manifest = format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: background}}\nspec:\n  activities:\n    cleanup: [{{fn: report, script: bench.rhai}}]\n  \
         resources:\n    - resource: things.{group}\n      script: bench.rhai\n      {list}\n"
    );
    let script = format!(
        r#"fn begin(shared, logger) {{
    if shared.update("begun", |count| (count ?? 0) + 1) == {objects} {{ logger.info("All have begun."); }}
}}

fn wait(shared, stopped, logger) {{
    begin(shared, logger);
    stopped.wait();
}}

fn tick(shared, memo, logger) {{
    let at = now();
    if memo.last == () {{
        begin(shared, logger);
    }} else {{
        let late = max(0, min({LATEST}, ((at - memo.last - 1.0) * 1000.0).to_int()));
        shared.update(`late-${{late}}`, |count| (count ?? 0) + 1);
    }}
    memo.last = at;
}}

fn report(shared, logger) {{
    let counts = [];
    for late in 0..={LATEST} {{ counts.push(`${{shared.get(`late-${{late}}`) ?? 0}}`); }}
    let line = "late:";
    for count in counts {{ line += " " + count; }}
    logger.info(line);
}}
"#
    );
    write(&directory.join("operator.yaml"), &manifest);
    write(&directory.join("bench.rhai"), &script);
    let mut command = Command::new(&cluster.tools().kopfd);
    command.arg("-A").arg("--config").arg(directory).env("KUBECONFIG", cluster.api_server().kubeconfig());
    command
}

fn kopf(cluster: &Cluster, group: &str, task: Task, objects: usize, directory: &Path) -> Command {
    let decorator = match task {
        Task::Daemon => format!(
            "@kopf.daemon(\"things.{group}\")\nasync def wait(stopped, logger, **_):\n    begin(logger)\n    await stopped.wait()\n"
        ),
        Task::Timer => format!(
            "@kopf.timer(\"things.{group}\", interval=1.0, sharp=True)\nasync def tick(memo, logger, **_):\n    at = time.time()\n    \
             if \"last\" not in memo:\n        begin(logger)\n    else:\n        \
             late[max(0, min({LATEST}, int((at - memo.last - 1.0) * 1000)))] += 1\n    memo.last = at\n"
        ),
    };
    let text = format!(
        "import time\n\nimport kopf\n\nbegun = 0\nlate = [0] * {buckets}\n\n\n@kopf.on.startup()\ndef configure(settings, **_):\n    \
         settings.posting.enabled = False\n\n\ndef begin(logger):\n    global begun\n    begun += 1\n    if begun == {objects}:\n        \
         logger.info(\"All have begun.\")\n\n\n{decorator}\n\n@kopf.on.cleanup()\ndef report(logger, **_):\n    \
         logger.info(\"late: \" + \" \".join(map(str, late)))\n",
        buckets = LATEST + 1
    );
    let file = directory.join("bench.py");
    write(&file, &text);
    let mut command = Command::new(&cluster.tools().kopf);
    command.args(["run", "--standalone", "-A"]).arg(file).env("KUBECONFIG", cluster.api_server().kubeconfig());
    command
}
