//! Reviews by webhooks: kopfd beside Python kopf, with the same client over TLS.
//!
//! `benches/run admission` builds the release binary and starts this. Both engines are connected to an embedded API
//! server of their own, and answer the same reviews: a validating webhook that looks at two fields and adds a warning,
//! and a mutating one that sets a field.

#![expect(clippy::print_stdout, reason = "this is a command of its own that prints its figures")]

#[path = "admission/client.rs"]
mod client;
#[path = "admission/engine.rs"]
mod engine;
mod support;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use client::Client;
use engine::{Engine, Server};
use support::ratios::{Ratios, count, rounds};
use support::table::{self, median, milliseconds, quantile, row, verdict};

/// Reviews in one measurement of the processor time.
const REVIEWS: usize = 20_000;
/// Connections of the client, as an API server would have.
const CONNECTIONS: usize = 8;
/// Reviews per second in the measurement of times.
const RATE: usize = 500;
/// The size of the large object in bytes.
const LARGE: usize = 1_000_000;

/// The figures of one engine.
#[derive(Debug, Default)]
struct Figures {
    /// Reviews per second of processor time.
    per_second: Vec<f64>,
    /// 99th percentile of the times at a fixed rate, in milliseconds.
    p99: Vec<f64>,
    /// Median of the times of reviews of a large object, in milliseconds.
    large: Vec<f64>,
}

fn main() -> ExitCode {
    kopfd::http::install_crypto_provider();
    let kopfd = support::process::kopfd();
    let kopf = std::env::var_os("KOPFD_CLUSTER_KOPF").map(PathBuf::from);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-admission");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("the system has sockets");
    let engines: Vec<Engine> =
        [Some(Engine::Kopfd), kopf.as_ref().map(|_| Engine::Kopf)].into_iter().flatten().collect();
    let mut figures: Vec<Figures> = engines.iter().map(|_| Figures::default()).collect();
    for _ in 0..rounds() {
        for (engine, figures) in engines.iter().zip(&mut figures) {
            let server = Server::start(*engine, &kopfd, kopf.as_deref(), &directory);
            // kopf refuses requests of more than 1 MiB.
            runtime.block_on(measure(&server, *engine == Engine::Kopfd, figures));
        }
    }
    report(&engines, &figures)
}

async fn measure(server: &Server, has_large: bool, figures: &mut Figures) {
    let mut client = Client::connect(server, CONNECTIONS).await;
    client.warm_up().await;
    let (reviews, before) = (count(REVIEWS), server.program.cpu());
    client.send_all(reviews).await;
    let used = server.program.cpu().saturating_sub(before);
    figures.per_second.push(reviews as f64 / used.as_secs_f64());
    let times: Vec<f64> = client.send_paced(count(RATE * 10), RATE).await.into_iter().map(milliseconds).collect();
    figures.p99.push(quantile(&times, 0.99));
    if has_large {
        let times: Vec<f64> = client.send_large(LARGE, count(50)).await.into_iter().map(milliseconds).collect();
        figures.large.push(median(&times));
    }
}

fn report(engines: &[Engine], figures: &[Figures]) -> ExitCode {
    let mut ratios = Ratios::default();
    let mut rows = vec![row(["engine", "reviews/s of CPU", "p99 at 500/s, ms", "1 MB, ms"])];
    for (engine, figures) in engines.iter().zip(figures) {
        let shown =
            |figures: &Vec<f64>| if figures.is_empty() { String::new() } else { format!("{:.2}", median(figures)) };
        let cells = [&figures.per_second, &figures.p99, &figures.large].map(shown);
        rows.push([vec![engine.name().to_owned()], cells.to_vec()].concat());
    }
    table::print(&rows);
    let own = &figures[0];
    println!("p99 ≤ 3 ms: {}", verdict(median(&own.p99) <= 3.0));
    println!("1 MB ≤ 10 ms: {}", verdict(median(&own.large) <= 10.0));
    if let [own, kopf] = figures {
        let ratio =
            median(&own.per_second.iter().zip(&kopf.per_second).map(|(own, kopf)| own / kopf).collect::<Vec<_>>());
        println!("{ratio:.1} times kopf's reviews per second of CPU, goal 15: {}", verdict(ratio >= 15.0));
        ratios.add_higher("admission, reviews per second of CPU", ratio);
    }
    ratios.finish()
}
