//! The rounds of a script thread: in each of them, the jobs that have come begin, and each script that has given way
//! runs once more.
//!
//! A script thread is no worker of a runtime, so tokio would wake a task that yields there at once: it would run dozens
//! of slices before the thread polled its jobs again.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::pin;
use std::task::{Poll, Waker};

/// The wakers of the tasks that wait for the next round, and of the thread that begins it.
struct Round {
    waiting: Vec<Waker>,
    thread: Waker,
}

thread_local! {
    static ROUND: RefCell<Option<Round>> = const { RefCell::new(None) };
}

/// Runs the jobs of a thread that has rounds, until there are no more.
pub(crate) async fn of<T>(jobs: impl Future<Output = T>) -> T {
    let mut jobs = pin!(jobs);
    poll_fn(|context| {
        if let Poll::Ready(ended) = jobs.as_mut().poll(context) {
            return Poll::Ready(ended);
        }
        let waiting = ROUND.with_borrow_mut(|round| {
            let round = round.get_or_insert_with(|| Round { waiting: Vec::new(), thread: context.waker().clone() });
            round.thread.clone_from(context.waker());
            mem::take(&mut round.waiting)
        });
        // The jobs that have just begun are in the queue by now.
        waiting.into_iter().for_each(Waker::wake);
        Poll::Pending
    })
    .await
}

/// Waits for the next round of this thread. A thread without rounds belongs to a runtime, which knows how to yield.
pub(crate) async fn next() {
    let mut is_waiting = false;
    let has_rounds = poll_fn(|context| {
        if is_waiting {
            return Poll::Ready(true);
        }
        is_waiting = true;
        ROUND.with_borrow_mut(|round| match round {
            Some(round) => {
                round.waiting.push(context.waker().clone());
                round.thread.wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(false),
        })
    })
    .await;
    if !has_rounds {
        // Unlike a task that only wakes itself, this also lets the timers and the network of the runtime go on.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use tokio::sync::mpsc;
    use tokio::task::{LocalSet, spawn_local};

    /// Runs a task that gives way all the time, and returns its slices until a job has begun that came during the first
    /// one.
    async fn slices_until_a_job_begins() -> u32 {
        let (jobs, mut received) = mpsc::unbounded_channel();
        let slices = Rc::new(Cell::new(0));
        let spinning = Rc::clone(&slices);
        spawn_local(async move {
            jobs.send(()).unwrap();
            loop {
                spinning.set(spinning.get() + 1);
                next().await;
            }
        });
        received.recv().await.unwrap();
        slices.get()
    }

    #[test]
    fn a_job_begins_after_one_slice_of_a_task_that_gives_way_all_the_time() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let handle = runtime.handle().clone();
        let thread =
            std::thread::spawn(move || handle.block_on(LocalSet::new().run_until(of(slices_until_a_job_begins()))));
        assert_eq!(thread.join().unwrap(), 1);
    }

    #[tokio::test]
    async fn tasks_without_rounds_yield_to_the_others_of_their_runtime() {
        let set = LocalSet::new();
        let has_run = Rc::new(Cell::new(false));
        set.run_until(async {
            let runs = Rc::clone(&has_run);
            spawn_local(async move { runs.set(true) });
            next().await;
            assert!(has_run.get());
        })
        .await;
    }
}
