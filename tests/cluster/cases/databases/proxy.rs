//! A proxy before a server of databases, which can hold back the answer of one statement.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::servers::Product;

/// The proxy.
pub(super) struct Proxy {
    /// Its port.
    pub(super) port: u16,
    state: Arc<State>,
}

struct State {
    product: Product,
    server: u16,
    /// The number of statements until one is held; 0 for none.
    left: AtomicUsize,
    holds: AtomicBool,
}

impl Proxy {
    /// Opens a proxy that holds nothing.
    pub(super) fn open(product: Product, server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State { product, server, left: AtomicUsize::new(0), holds: AtomicBool::new(false) });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || connect(&state, client));
            }
        });
        Self { port, state }
    }

    /// Lets the server carry out the n-th statement from now on, and keeps its answer back.
    pub(super) fn hold_after(&self, statements: usize) {
        self.state.left.store(statements, Ordering::SeqCst);
    }

    /// Tells whether the server has carried out that statement.
    pub(super) fn holds(&self) -> bool {
        self.state.holds.load(Ordering::SeqCst)
    }

    /// Holds nothing from now on.
    pub(super) fn release(&self) {
        self.state.left.store(0, Ordering::SeqCst);
        self.state.holds.store(false, Ordering::SeqCst);
    }
}

fn connect(state: &Arc<State>, client: TcpStream) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", state.server)) else { return };
    let held = Arc::new(AtomicBool::new(false));
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let (shared, is_held) = (Arc::clone(state), Arc::clone(&held));
    let answers = std::thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(count) = from_server.read(&mut buffer) {
            if count == 0 {
                break;
            }
            if is_held.load(Ordering::SeqCst) {
                // The statement has its effect; the operator does not know it.
                shared.holds.store(true, Ordering::SeqCst);
                continue;
            }
            if to_client.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
    forward(state, client, &server, &held);
    // The server ends the session of a client that is gone.
    let _ = server.shutdown(std::net::Shutdown::Both);
    let _ = answers.join();
}

/// Forwards the messages of a client, and counts the statements among them.
fn forward(state: &State, mut client: TcpStream, mut server: &TcpStream, held: &AtomicBool) {
    let mut is_first = true;
    while let Some(message) = message(state.product, &mut client, is_first) {
        let is_statement = match state.product {
            // `Bind`: the begin of the execution of a prepared statement.
            Product::Postgres => !is_first && message[0] == b'B',
            // `COM_STMT_EXECUTE`.
            Product::Mariadb => message[3] == 0 && message[4] == 0x17,
        };
        is_first = false;
        if is_statement && state.left.load(Ordering::SeqCst) > 0 && state.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            held.store(true, Ordering::SeqCst);
        }
        if server.write_all(&message).is_err() {
            return;
        }
    }
}

/// Reads one message with its head.
fn message(product: Product, client: &mut TcpStream, is_first: bool) -> Option<Vec<u8>> {
    let (head, length): (usize, fn(&[u8]) -> usize) = match product {
        Product::Postgres if is_first => (4, |head| number(head) - 4),
        Product::Postgres => (5, |head| number(&head[1..]) - 4),
        Product::Mariadb => (4, |head| usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16),
    };
    let mut message = vec![0; head];
    client.read_exact(&mut message).ok()?;
    let body = length(&message);
    message.resize(head + body, 0);
    client.read_exact(&mut message[head..]).ok()?;
    Some(message)
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}
