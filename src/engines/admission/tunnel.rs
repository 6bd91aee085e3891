//! A tunnel from the internet to the server of the webhooks: the program `ngrok`, as a child process.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::client_config::{ClientConfig, Target};
use crate::kit::{Backoff, Stop, Tasks, errors};
use crate::manifest::admission;

/// The program, if the settings name none.
const PROGRAM: &str = "ngrok";

/// The time limit for the tunnel to be opened.
const OPENING: Duration = Duration::from_secs(30);

/// The time limit for the end of the program after it was killed.
const ENDING: Duration = Duration::from_secs(5);

/// Pauses in seconds before the program is started again.
const RESTARTS: [u64; 5] = [1, 5, 15, 30, 60];

/// The options of a tunnel.
#[derive(Debug, Clone)]
pub(crate) struct TunnelOptions {
    /// The account, the region and the program.
    pub settings: admission::Tunnel,
    /// The port of the server on this machine.
    pub port: u16,
    /// The prefix of the paths of the webhooks.
    pub path: String,
}

/// The reason why there is no tunnel.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// The program cannot be started.
    #[error("cannot start the program {0:?} for the tunnel to the webhooks")]
    Start(String, #[source] io::Error),
    /// The program has ended without opening the tunnel.
    #[error("the program {program:?} has ended without opening a tunnel: {text}")]
    Ended {
        /// The program.
        program: String,
        /// Its last error.
        text: String,
    },
    /// The program does not open the tunnel in time.
    #[error("the program {:?} has not opened a tunnel within {} seconds", .0, OPENING.as_secs())]
    Timeout(String),
}

/// An open tunnel. Dropping it kills the program.
pub(crate) struct Tunnel {
    config: watch::Receiver<ClientConfig>,
    stop: Stop,
    tasks: Tasks<()>,
}

impl Tunnel {
    /// Opens a tunnel, and keeps it open.
    ///
    /// # Errors
    /// If it cannot be opened. Later, the program is started again whenever it ends.
    pub(crate) async fn open(options: TunnelOptions) -> Result<Self, TunnelError> {
        let (program, url) = Program::start(&options).await?;
        let (config, stop) = (watch::Sender::new(config_of(&url, &options.path)), Stop::new());
        let (receiver, mut tasks) = (config.subscribe(), Tasks::default());
        tasks.spawn("tunnel to the webhooks", keep(program, options, config, stop.clone()));
        Ok(Self { config: receiver, stop, tasks })
    }

    /// Returns a channel with the current client configuration.
    pub(crate) fn client_config(&self) -> watch::Receiver<ClientConfig> {
        self.config.clone()
    }

    /// Closes the tunnel, and waits for the end of the program.
    pub(crate) async fn close(mut self) {
        self.stop.request("the operators have ended");
        self.tasks.finish(ENDING).await;
    }
}

fn config_of(url: &str, path: &str) -> ClientConfig {
    let (url, path) = (url.trim_end_matches('/'), path.trim_end_matches('/'));
    ClientConfig { target: Target::Url(format!("{url}{path}")), authorities: None }
}

/// Starts the program again whenever it ends. The API server gets the new address.
async fn keep(mut program: Program, options: TunnelOptions, config: watch::Sender<ClientConfig>, stop: Stop) {
    let mut restarts = Backoff::new(RESTARTS.map(Duration::from_secs));
    loop {
        let text = tokio::select! {
            biased;
            () = stop.requested() => return program.kill().await,
            text = program.ended() => text,
        };
        warn!(target: "kopfd::admission", "The tunnel to the webhooks is closed, and is opened again: {text}");
        program = loop {
            let opened = tokio::select! {
                biased;
                () = stop.requested() => return,
                opened = async {
                    sleep(restarts.next_or_last().unwrap_or_default()).await;
                    Program::start(&options).await
                } => opened,
            };
            match opened {
                Ok((program, url)) => {
                    restarts.reset();
                    config.send_replace(config_of(&url, &options.path));
                    break program;
                }
                Err(error) => {
                    let error = errors::chain(&error);
                    warn!(target: "kopfd::admission", "The tunnel to the webhooks cannot be opened, and is tried again: {error}");
                }
            }
        };
    }
}

/// The running program.
struct Program {
    child: Child,
    log: Lines<BufReader<ChildStdout>>,
    /// The last error in its log.
    error: String,
    token: Option<String>,
}

impl Program {
    /// Starts the program, and waits until it reports the public address.
    async fn start(options: &TunnelOptions) -> Result<(Self, String), TunnelError> {
        let name = options.settings.binary.clone().unwrap_or_else(|| PROGRAM.to_owned());
        let failed = |error| TunnelError::Start(name.clone(), error);
        let mut command = Command::new(&name);
        command.args(["http", &options.port.to_string(), "--log=stdout", "--log-format=json"]);
        if let Some(region) = &options.settings.region {
            command.arg(format!("--region={region}"));
        }
        if let Some(token) = &options.settings.token {
            // Arguments are visible to all users of the machine.
            command.env("NGROK_AUTHTOKEN", token);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child.stdout.take().expect("the standard output is a pipe");
        let log = BufReader::new(stdout).lines();
        let mut program = Self { child, log, error: String::new(), token: options.settings.token.clone() };
        match timeout(OPENING, program.opened()).await {
            Err(_) => Err(TunnelError::Timeout(name)),
            Ok(None) => Err(TunnelError::Ended { program: name, text: program.ended().await }),
            Ok(Some(url)) => {
                info!(target: "kopfd::admission", "The webhooks are reached through the tunnel {url}.");
                Ok((program, url))
            }
        }
    }

    /// Reads the log until the tunnel is open. Returns its address, or nothing if the program ends.
    async fn opened(&mut self) -> Option<String> {
        while let Ok(Some(line)) = self.log.next_line().await {
            let entry: Value = serde_json::from_str(&line).unwrap_or_default();
            self.note_error(&entry);
            if let Some(url) = entry["url"].as_str().filter(|url| url.starts_with("https://")) {
                return Some(url.to_owned());
            }
        }
        None
    }

    /// Waits for the end of the program, and returns why it has ended. Its log is read, since it waits for its reader.
    ///
    /// *Cancel safety*: it may be called again.
    async fn ended(&mut self) -> String {
        while let Ok(Some(line)) = self.log.next_line().await {
            let entry: Value = serde_json::from_str(&line).unwrap_or_default();
            self.note_error(&entry);
        }
        let status = self.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
        if self.error.is_empty() { status } else { format!("{status}: {}", self.error) }
    }

    fn note_error(&mut self, entry: &Value) {
        if let Some(text) = entry["err"].as_str().filter(|text| *text != "<nil>") {
            let hidden = self.token.as_deref().map(|token| text.replace(token, "***"));
            self.error = hidden.unwrap_or_else(|| text.to_owned());
        }
    }

    async fn kill(mut self) {
        // A program that has ended already is no failure.
        let _ = self.child.kill().await;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    /// Writes a program that logs as ngrok does.
    fn program(folder: &Path, script: &str) -> TunnelOptions {
        let file = folder.join("ngrok");
        std::fs::write(&file, format!("#!/bin/sh\ncd {}\necho $$ > pid\n{script}\n", folder.display())).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let settings = admission::Tunnel {
            token: Some("t0ken".into()),
            region: Some("eu".into()),
            binary: Some(file.display().to_string()),
        };
        TunnelOptions { settings, port: 8080, path: "/hooks/".into() }
    }

    const OPENS: &str = r#"echo '{"lvl":"info","msg":"no configuration paths supplied","err":"<nil>"}'
echo '{"lvl":"info","msg":"started tunnel","name":"command_line","addr":"http://localhost:8080","url":"https://x.example.com"}'"#;

    fn url(config: &ClientConfig) -> &str {
        let Target::Url(url) = &config.target else { panic!("{config:?}") };
        url
    }

    fn is_running(folder: &Path) -> bool {
        let pid = std::fs::read_to_string(folder.join("pid")).unwrap();
        Path::new("/proc").join(pid.trim()).exists()
    }

    #[tokio::test]
    async fn the_program_gets_port_region_and_token_and_is_killed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let options =
            program(folder.path(), &format!("echo \"$@ $NGROK_AUTHTOKEN\" > arguments\n{OPENS}\nexec sleep 1000"));
        let tunnel = Tunnel::open(options).await.unwrap();
        assert_eq!(url(&tunnel.client_config().borrow()), "https://x.example.com/hooks");
        let arguments = std::fs::read_to_string(folder.path().join("arguments")).unwrap();
        assert_eq!(arguments, "http 8080 --log=stdout --log-format=json --region=eu t0ken\n");
        assert!(is_running(folder.path()));
        tunnel.close().await;
        assert!(!is_running(folder.path()));
    }

    #[tokio::test]
    async fn a_program_that_fails_tells_its_last_error_without_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let options = program(folder.path(), "echo '{\"lvl\":\"eror\",\"err\":\"t0ken is no token\"}'\nexit 3");
        let error = Tunnel::open(options.clone()).await.map(|_| ()).unwrap_err().to_string();
        assert!(error.ends_with("has ended without opening a tunnel: exit status: 3: *** is no token"), "{error}");
        let settings = admission::Tunnel { binary: Some("/nonexistent/ngrok".into()), ..options.settings.clone() };
        let error = Tunnel::open(TunnelOptions { settings, ..options }).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, TunnelError::Start(name, _) if name == "/nonexistent/ngrok"));
    }

    #[tokio::test]
    async fn a_program_that_ends_is_started_again_and_the_new_address_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let second = OPENS.replace("x.example.com", "y.example.com");
        let script = format!("if [ -e began ]; then\n{second}\nexec sleep 1000\nfi\ntouch began\n{OPENS}\nexit 0");
        let tunnel = Tunnel::open(program(folder.path(), &script)).await.unwrap();
        let mut config = tunnel.client_config();
        timeout(Duration::from_secs(20), config.changed()).await.unwrap().unwrap();
        assert_eq!(url(&config.borrow()), "https://y.example.com/hooks");
        tunnel.close().await;
        assert!(!is_running(folder.path()));
    }
}
