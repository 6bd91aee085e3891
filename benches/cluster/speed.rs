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

/// Objects at a steady pace, for the times of single ones. The slowest hundredth of few would tell more of the machine
/// than of an engine.
const STEADY: usize = 2_000;

/// Turns that an engine takes with them.
const TURNS: usize = 10;

/// The time between two of them: far above the limit of any engine.
const PAUSE: Duration = Duration::from_millis(25);

/// Objects in one burst.
const BURST: usize = 1_000;

/// Bursts of an engine.
const BURSTS: usize = 2;

/// Time for an engine's work after the last status of a turn.
const AFTERMATH: Duration = Duration::from_millis(500);

/// Time after a start until an engine is idle.
const SETTLED: Duration = Duration::from_secs(5);

/// Time after the last object until an engine is idle: it has closed the connections of the burst after 15 seconds, and
/// returned their memory within ten more.
const REST: Duration = Duration::from_secs(30);

/// The figures of one engine in one round.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    steady_cpu: f64,
    burst_cpu: f64,
    burst: f64,
    patches: f64,
    idle: f64,
    rested: f64,
}

/// All figures of one engine.
#[derive(Debug, Default)]
struct Found {
    rounds: Vec<Figures>,
    /// The times of single objects, by their turns in all rounds.
    turns: Vec<Vec<f64>>,
}

/// One line of the table: its title, the figure, and the goal, relative to the bare loop or absolute.
struct Line {
    title: &'static str,
    figure: Figure,
    goal: Goal,
}

enum Figure {
    /// The median of the rounds.
    Rounds(fn(&Figures) -> f64),
    /// The median of the quantile of the turns with single objects: a pause of the server delays all objects of its
    /// time, and would decide about the last hundredth of all of them.
    Turns(f64),
}

impl Figure {
    fn of(&self, found: &Found) -> f64 {
        match self {
            Self::Rounds(figure) => median(&found.rounds.iter().map(figure).collect::<Vec<_>>()),
            Self::Turns(part) => median(&found.turns.iter().map(|times| quantile(times, *part)).collect::<Vec<_>>()),
        }
    }

    /// Returns the ratio of two engines: rounds and turns differ by other load of the machine, engines within one of
    /// them less so.
    fn ratio(&self, found: &Found, bare: &Found) -> f64 {
        match self {
            Self::Rounds(figure) => {
                let pairs = found.rounds.iter().zip(&bare.rounds);
                median(&pairs.map(|(figures, bare)| figure(figures) / figure(bare)).collect::<Vec<_>>())
            }
            Self::Turns(part) => {
                let pairs = found.turns.iter().zip(&bare.turns);
                median(&pairs.map(|(times, bare)| quantile(times, *part) / quantile(bare, *part)).collect::<Vec<_>>())
            }
        }
    }
}

enum Goal {
    OfBare(f64),
    Plain(f64),
}

const LINES: [Line; 8] = [
    Line {
        title: "CPU per object, steady, ms",
        figure: Figure::Rounds(|figures| figures.steady_cpu),
        goal: Goal::OfBare(0.85),
    },
    Line {
        title: "CPU per object, burst, ms",
        figure: Figure::Rounds(|figures| figures.burst_cpu),
        goal: Goal::OfBare(0.85),
    },
    Line { title: "creation to status, p50, ms", figure: Figure::Turns(0.5), goal: Goal::OfBare(1.0) },
    Line { title: "creation to status, p99, ms", figure: Figure::Turns(0.99), goal: Goal::OfBare(1.0) },
    Line { title: "1,000 objects done, s", figure: Figure::Rounds(|figures| figures.burst), goal: Goal::OfBare(1.0) },
    Line { title: "patches per creation", figure: Figure::Rounds(|figures| figures.patches), goal: Goal::Plain(2.0) },
    Line { title: "resident when idle, MB", figure: Figure::Rounds(|figures| figures.idle), goal: Goal::Plain(15.0) },
    Line {
        title: "resident after all objects, MB",
        figure: Figure::Rounds(|figures| figures.rested),
        goal: Goal::Plain(25.0),
    },
];

/// Measures all engines in several rounds, and prints the medians.
pub(crate) fn measure(cluster: &Cluster, third: Option<Engine>, directory: &Path, ratios: &mut Ratios) {
    let mut engines = vec![Engine::Bare, Engine::Kopfd];
    engines.extend(third);
    // The server is slower for its first objects.
    play(cluster, &[Engine::Bare], "warm-up", directory);
    let mut found: Vec<Found> = engines.iter().map(|_| Found::default()).collect();
    for round in 0..rounds() {
        // The first engine has a fresher server, so the order changes.
        let first = round % engines.len();
        let order = [&engines[first..], &engines[..first]].concat();
        for played in play(cluster, &order, &format!("r{round}"), directory) {
            let quantiles = |share: f64| {
                played.turns.iter().map(|times| format!("{:.1}", quantile(times, share))).collect::<Vec<_>>().join(" ")
            };
            println!("round {round}, {}: {:.2?}", played.engine.title(), played.figures);
            println!("    p50 of the turns: {}; p99: {}", quantiles(0.5), quantiles(0.99));
            let index = engines.iter().position(|engine| *engine == played.engine).expect("only these have played");
            found[index].rounds.push(played.figures);
            found[index].turns.extend(played.turns);
        }
    }
    println!();
    print(&table(&engines, &found));
    for line in LINES {
        ratios.add_lower(format!("operator, {}", line.title), line.figure.ratio(&found[1], &found[0]));
    }
}

fn table(engines: &[Engine], found: &[Found]) -> Vec<Vec<String>> {
    let mut header = row(["", "bare loop", "kopfd", "ratio", "goal", ""]);
    header.extend(engines.get(2).into_iter().flat_map(|third| [third.title().to_owned(), "ratio".to_owned()]));
    let mut rows = vec![header];
    for line in LINES {
        let middle = |index: usize| line.figure.of(&found[index]);
        let ratio = |index: usize| line.figure.ratio(&found[index], &found[0]);
        let (goal, is_reached) = match line.goal {
            Goal::OfBare(goal) => (format!("{goal:.2} ×"), ratio(1) <= goal),
            Goal::Plain(goal) => (format!("{goal}"), middle(1) <= goal),
        };
        let mut cells = vec![
            line.title.to_owned(),
            format!("{:.2}", middle(0)),
            format!("{:.2}", middle(1)),
            format!("{:.2} ×", ratio(1)),
        ];
        cells.extend([goal, verdict(is_reached)]);
        if engines.len() > 2 {
            cells.extend([format!("{:.2}", middle(2)), format!("{:.2} ×", ratio(2))]);
        }
        rows.push(cells);
    }
    rows
}

/// The result of one engine in one round.
struct Played {
    engine: Engine,
    figures: Figures,
    /// The times of single objects, by turns.
    turns: Vec<Vec<f64>>,
}

/// One engine of a round, with its own kind.
struct Player {
    engine: Engine,
    load: Load,
    program: Program,
    figures: Figures,
    /// The patches before the measured objects.
    patches: u64,
    /// The times of single objects, by turns.
    turns: Vec<Vec<f64>>,
}

/// Runs engines side by side, of which one at a time has work: the speed of a machine may change from one minute to the
/// next.
fn play(cluster: &Cluster, engines: &[Engine], round: &str, directory: &Path) -> Vec<Played> {
    let mut players: Vec<Player> =
        engines.iter().map(|engine| Player::start(cluster, *engine, round, directory)).collect();
    sleep(SETTLED);
    for player in &mut players {
        player.figures.idle = megabytes(player.program.resident());
        player.load.make("beacon", 1, Pace::Burst, 0);
        player.load.wait();
    }
    sleep(AFTERMATH);
    for player in &mut players {
        player.patches = player.load.patches();
    }
    // There and back, so that a machine that becomes slower or faster does so for all of them.
    for turn in 0..TURNS {
        for player in &mut players {
            player.handle_single_objects(turn);
        }
        players.reverse();
    }
    for turn in 0..BURSTS {
        for player in &mut players {
            player.handle_a_burst(turn);
        }
        players.reverse();
    }
    sleep(REST);
    players.into_iter().map(Player::end).collect()
}

impl Player {
    fn start(cluster: &Cluster, engine: Engine, round: &str, directory: &Path) -> Self {
        let group = format!("{}-{round}.bench.kopfd.dev", engine.title());
        let load = Load::new(cluster.client(), &group);
        sleep(Duration::from_secs(2));
        let program = engine.start(cluster, &group, directory);
        Self { engine, load, program, figures: Figures::default(), patches: 0, turns: Vec::new() }
    }

    fn handle_single_objects(&mut self, turn: usize) {
        let (before, objects) = (self.program.cpu(), count(STEADY) / TURNS);
        let began = self.load.make(&format!("steady-{turn}"), objects, Pace::Steady(PAUSE), 0);
        self.turns.push(times(&began, &self.load.wait()));
        self.figures.steady_cpu += self.cpu_per_object(before, count(STEADY));
    }

    fn handle_a_burst(&mut self, turn: usize) {
        let (before, began) = (self.program.cpu(), Instant::now());
        self.load.make(&format!("burst-{turn}"), count(BURST), Pace::Burst, 0);
        let last = self.load.wait().into_values().max().expect("there are objects");
        self.figures.burst += last.duration_since(began).as_secs_f64() / BURSTS as f64;
        self.figures.burst_cpu += self.cpu_per_object(before, count(BURST) * BURSTS);
    }

    fn cpu_per_object(&self, before: Duration, objects: usize) -> f64 {
        sleep(AFTERMATH);
        milliseconds(self.program.cpu().saturating_sub(before)) / objects as f64
    }

    fn end(mut self) -> Played {
        self.figures.patches =
            (self.load.patches() - self.patches) as f64 / (count(STEADY) + count(BURST) * BURSTS) as f64;
        self.figures.rested = megabytes(self.program.resident());
        Played { engine: self.engine, figures: self.figures, turns: self.turns }
    }
}

fn times(began: &HashMap<String, Instant>, done: &HashMap<String, Instant>) -> Vec<f64> {
    began.iter().map(|(name, began)| milliseconds(done[name].duration_since(*began))).collect()
}
