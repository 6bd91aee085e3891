//! The engines, with an embedded API server for each.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::support::process::Program;

/// Limit of the start of a program.
const START: Duration = Duration::from_mins(1);

const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: bench}
spec:
  settings: {admission: {server: {kind: server, addr: 127.0.0.1, port: PORT, host: localhost, cadump: ca.pem}}}
  resources:
    - resource: kopfdexamples.kopfd.dev
      script: bench.rhai
      webhooks:
        - {on: validate, fn: check}
        - {on: mutate, fn: complete}
";

const SCRIPT: &str = "fn check(spec, userinfo, warnings) {
    if spec.size > 10 { throw reject(\"too large\"); }
    if spec.owner != userinfo.username { warnings.push(\"not yours\"); }
}

fn complete(patch) { patch.spec.completed = true; }
";

const PYTHON: &str = "import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer(
        addr='127.0.0.1', port=PORT, host='localhost', certfile='ca.pem', pkeyfile='key.pem')

@kopf.on.validate('kopfdexamples.kopfd.dev')
async def check(spec, userinfo, warnings, **_):
    if spec['size'] > 10:
        raise kopf.AdmissionError('too large')
    if spec['owner'] != userinfo['username']:
        warnings.append('not yours')

@kopf.on.mutate('kopfdexamples.kopfd.dev')
async def complete(patch, **_):
    patch.spec['completed'] = True
";

/// A measured program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The binary `kopfd`.
    Kopfd,
    /// Python kopf 1.44.6.
    Kopf,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kopfd => "kopfd",
            Self::Kopf => "kopf",
        }
    }
}

/// A running engine.
pub(crate) struct Server {
    pub(crate) program: Program,
    /// The address of its webhooks.
    pub(crate) address: SocketAddr,
    /// The authority of its certificate, as PEM.
    pub(crate) authority: String,
    _cluster: Program,
}

impl Server {
    pub(crate) fn start(engine: Engine, kopfd: &Path, kopf: Option<&Path>, directory: &Path) -> Self {
        let directory = directory.join(engine.name());
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("the directory can be made");
        let crd = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/17-admission/crd.yaml");
        let mut command = Command::new(kopfd);
        command.args(["apiserver", "--kubeconfig-out", "kubeconfig", "--crds"]).arg(crd).current_dir(&directory);
        let api_server = Program::start(&mut command, &directory.join("apiserver.log"));
        wait_for(&directory.join("kubeconfig"));
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
        let write = |name: &str, text: &str| {
            fs::write(directory.join(name), text.replace("PORT", &port.to_string()))
                .expect("the directory can be written");
        };
        let mut command = match engine {
            Engine::Kopfd => {
                write("operator.yaml", MANIFEST);
                write("bench.rhai", SCRIPT);
                let mut command = Command::new(kopfd);
                command.args(["run", "operator.yaml", "--kubeconfig", "kubeconfig"]);
                command
            }
            Engine::Kopf => {
                write("bench.py", PYTHON);
                // The packages that kopf makes certificates with do not know the present versions of OpenSSL.
                let made =
                    rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate can be made");
                for (name, text) in [("key.pem", made.signing_key.serialize_pem()), ("ca.pem", made.cert.pem())] {
                    fs::write(directory.join(name), text).expect("the directory can be written");
                }
                let mut command = Command::new(kopf.expect("kopf is measured only where it is"));
                command.args(["run", "--standalone", "-A", "bench.py"]).env("KUBECONFIG", directory.join("kubeconfig"));
                command
            }
        };
        let program = Program::start(command.current_dir(&directory), &directory.join("engine.log"));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(
                began.elapsed() < START,
                "{} does not listen: see {}",
                engine.name(),
                directory.join("engine.log").display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        wait_for(&directory.join("ca.pem"));
        let authority = fs::read_to_string(directory.join("ca.pem")).expect("the engine has written its authority");
        Self { program, address, authority, _cluster: api_server }
    }
}

fn wait_for(file: &Path) {
    let began = Instant::now();
    while fs::metadata(file).map_or(0, |metadata| metadata.len()) == 0 {
        assert!(began.elapsed() < START, "{} is not written", file.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}
