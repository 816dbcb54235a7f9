//! A future that is polled again at once if it was woken while it was polled.
//!
//! Of HTTP/1, what reads a body and what takes it are one task, which so wakes itself. The runtime
//! would put it into a queue and wake another thread, which finds nothing left to do: two switches
//! of threads a request.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// After that many polls the runtime decides what is next.
const POLLS_MAX: usize = 4;

/// Nothing polls it: its task is to be woken.
const WAITS: u8 = 0;
/// It is polled.
const POLLED: u8 = 1;
/// It is polled, and was woken meanwhile.
const WOKEN: u8 = 2;

/// Waits for `future`, as the module says.
pub(crate) async fn again<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let poll = move |task: &mut Context<'_>| {
        woken.task.register(task.waker());
        for _ in 0..POLLS_MAX {
            woken.state.store(POLLED, Ordering::SeqCst);
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            let state = woken.state.swap(WAITS, Ordering::SeqCst);
            if polled.is_ready() || state != WOKEN {
                return polled;
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    };
    poll_fn(poll).await
}

#[derive(Default)]
struct Woken {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self
            .state
            .compare_exchange(POLLED, WOKEN, Ordering::SeqCst, Ordering::SeqCst);
        if noted == Err(WAITS) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls a future that wakes itself in its first `self_wakes` polls. Returns how often its task
    /// was polled, and how often it was woken.
    fn polled(self_wakes: usize) -> (usize, usize) {
        let mut left = self_wakes;
        let mut future = pin!(again(poll_fn(move |context| match left {
            0 => Poll::Ready(()),
            _ => {
                left -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut polls = 1;
        while future
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            let woken = wakes.0.load(Ordering::SeqCst);
            assert_eq!(woken, polls, "a task that has more to do is woken");
            polls += 1;
        }
        (polls, wakes.0.load(Ordering::SeqCst))
    }

    #[test]
    fn a_future_that_wakes_itself_is_polled_again_without_its_task() {
        assert_eq!(polled(0), (1, 0));
        assert_eq!(polled(1), (1, 0));
        assert_eq!(polled(3), (1, 0));
        assert_eq!(polled(4), (2, 1));
        assert_eq!(polled(9), (3, 2));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn none_that_is_woken_by_another_thread_sleeps_on() {
        for _ in 0..2_000 {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let waits = tokio::spawn(again(receiver));
            tokio::spawn(async move { sender.send(7) });
            assert_eq!(waits.await.unwrap(), Ok(7));
        }
    }
}
