//! Speed: the work per object, the time from a creation to its status, and the time for a burst.

use std::collections::HashMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::engine::Engine;
use super::harness::Cluster;
use super::load::{Load, Pace};
use super::support::process::Program;
use super::support::ratios::{Ratios, count, rounds};
use super::support::table::{median, megabytes, milliseconds, print, quantile, row, verdict};

/// Objects at a steady pace, for the times of single ones.
const STEADY: usize = 400;

/// The time between two of them: far above the limit of any engine.
const PAUSE: Duration = Duration::from_millis(25);

/// Objects in one burst.
const BURST: usize = 1_000;

/// Time for an engine's work after the last status.
const AFTERMATH: Duration = Duration::from_millis(500);

/// Time after a start until an engine is idle.
const SETTLED: Duration = Duration::from_secs(5);

/// Time after the last object until an engine is idle: it has closed the connections of the burst.
const REST: Duration = Duration::from_secs(20);

/// The figures of one engine in one round.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    steady_cpu: f64,
    burst_cpu: f64,
    half: f64,
    most: f64,
    burst: f64,
    patches: f64,
    idle: f64,
    rested: f64,
}

/// One line of the table: its title, the figure, and the goal, relative to the bare loop or absolute.
struct Line {
    title: &'static str,
    figure: fn(&Figures) -> f64,
    goal: Goal,
}

enum Goal {
    OfBare(f64),
    Plain(f64),
}

const LINES: [Line; 8] = [
    Line { title: "CPU per object, steady, ms", figure: |figures| figures.steady_cpu, goal: Goal::OfBare(0.85) },
    Line { title: "CPU per object, burst, ms", figure: |figures| figures.burst_cpu, goal: Goal::OfBare(0.85) },
    Line { title: "creation to status, p50, ms", figure: |figures| figures.half, goal: Goal::OfBare(1.0) },
    Line { title: "creation to status, p99, ms", figure: |figures| figures.most, goal: Goal::OfBare(1.0) },
    Line { title: "1,000 objects done, s", figure: |figures| figures.burst, goal: Goal::OfBare(1.0) },
    Line { title: "patches per creation", figure: |figures| figures.patches, goal: Goal::Plain(2.0) },
    Line { title: "resident when idle, MB", figure: |figures| figures.idle, goal: Goal::Plain(15.0) },
    Line { title: "resident after all objects, MB", figure: |figures| figures.rested, goal: Goal::Plain(25.0) },
];

/// Measures all engines in turn, several times, and prints the medians.
pub(crate) fn measure(cluster: &Cluster, third: Option<Engine>, directory: &Path, ratios: &mut Ratios) {
    let mut engines = vec![Engine::Bare, Engine::Kopfd];
    engines.extend(third);
    // The server is slower for its first objects.
    play(cluster, Engine::Bare, "warm-up", directory);
    let mut found: Vec<Vec<Figures>> = vec![Vec::new(); engines.len()];
    for round in 0..rounds() {
        // The first engine has a fresher server, so the order changes.
        for index in 0..engines.len() {
            let index = (index + round) % engines.len();
            let figures = play(cluster, engines[index], &format!("r{round}"), directory);
            println!("round {round}, {}: {figures:.2?}", engines[index].title());
            found[index].push(figures);
        }
    }
    println!();
    print(&table(&engines, &found));
    for line in LINES {
        ratios.add_lower(format!("operator, {}", line.title), ratio(&line, &found[1], &found[0]));
    }
}

/// Returns the ratio of two engines: rounds differ by other load of the machine, engines within a round less so.
fn ratio(line: &Line, figures: &[Figures], bare: &[Figures]) -> f64 {
    let pairs = figures.iter().zip(bare);
    median(&pairs.map(|(figures, bare)| (line.figure)(figures) / (line.figure)(bare)).collect::<Vec<_>>())
}

fn table(engines: &[Engine], found: &[Vec<Figures>]) -> Vec<Vec<String>> {
    let mut header = row(["", "bare loop", "kopfd", "ratio", "goal", ""]);
    header.extend(engines.get(2).into_iter().flat_map(|third| [third.title().to_owned(), "ratio".to_owned()]));
    let mut rows = vec![header];
    for line in LINES {
        let middle = |index: usize| median(&found[index].iter().map(line.figure).collect::<Vec<_>>());
        let ratio = |index: usize| ratio(&line, &found[index], &found[0]);
        let (goal, is_reached) = match line.goal {
            Goal::OfBare(goal) => (format!("{goal:.2} ×"), ratio(1) <= goal),
            Goal::Plain(goal) => (format!("{goal}"), middle(1) <= goal),
        };
        let mut cells = vec![line.title.to_owned(), format!("{:.2}", middle(0)), format!("{:.2}", middle(1)), format!("{:.2} ×", ratio(1))];
        cells.extend([goal, verdict(is_reached)]);
        if engines.len() > 2 {
            cells.extend([format!("{:.2}", middle(2)), format!("{:.2} ×", ratio(2))]);
        }
        rows.push(cells);
    }
    rows
}

/// Runs one engine, from its start to its end.
fn play(cluster: &Cluster, engine: Engine, round: &str, directory: &Path) -> Figures {
    let group = format!("{}-{round}.bench.kopfd.dev", engine.title());
    let load = Load::new(cluster.client(), &group);
    sleep(Duration::from_secs(2));
    let program = engine.start(cluster, &group, directory);
    sleep(SETTLED);
    let mut figures = Figures { idle: megabytes(program.resident()), ..Figures::default() };
    load.make("beacon", 1, Pace::Burst, 0);
    load.wait();
    sleep(AFTERMATH);

    let (patches, before) = (load.patches(), program.cpu());
    let (steady, burst) = (count(STEADY), count(BURST));
    let began = load.make("steady", steady, Pace::Steady(PAUSE), 0);
    let times = times(&began, &load.wait());
    figures.steady_cpu = cpu_per_object(&program, before, steady);
    figures.half = quantile(&times, 0.5);
    figures.most = quantile(&times, 0.99);

    let (before, began) = (program.cpu(), Instant::now());
    load.make("burst", burst, Pace::Burst, 0);
    let done = load.wait();
    figures.burst = done.values().max().expect("there are objects").duration_since(began).as_secs_f64();
    figures.burst_cpu = cpu_per_object(&program, before, burst);
    figures.patches = (load.patches() - patches) as f64 / (steady + burst) as f64;
    sleep(REST);
    figures.rested = megabytes(program.resident());
    figures
}

fn times(began: &HashMap<String, Instant>, done: &HashMap<String, Instant>) -> Vec<f64> {
    began.iter().map(|(name, began)| milliseconds(done[name].duration_since(*began))).collect()
}

fn cpu_per_object(program: &Program, before: Duration, objects: usize) -> f64 {
    sleep(AFTERMATH);
    milliseconds(program.cpu().saturating_sub(before)) / objects as f64
}
