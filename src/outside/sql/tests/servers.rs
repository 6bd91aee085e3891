//! Servers of databases from the packages of the system, for tests: in a directory of their own, on a port of the
//! loopback interface.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The password of the administrator.
pub(crate) const PASSWORD: &str = "admin-s3cret";

/// How long a server may take to start.
const START: Duration = Duration::from_mins(1);

/// How long any other program may run.
const LIMIT: Duration = Duration::from_mins(2);

/// The command that installs missing programs.
const PACKAGES: &str = "apt-get install postgresql mariadb-server openssl";

/// The product of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// PostgreSQL, whose administrator is `postgres`.
    Postgres,
    /// MariaDB, whose administrator is `root`.
    Mariadb,
}

/// A running server. It ends when this is dropped, and with the thread that has started it.
pub(crate) struct Server {
    /// Its product.
    pub(crate) product: Product,
    /// Its port.
    pub(crate) port: u16,
    /// The authority that has certified it for `localhost`, as PEM.
    pub(crate) authority: String,
    directory: PathBuf,
    child: Child,
}

impl Server {
    /// Starts a server, and waits until it answers.
    pub(crate) fn start(product: Product) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = std::env::temp_dir().join(format!("kopfd-{product:?}-{}-{port}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let account = Account::of(product);
        let authority = certify(&directory);
        account.own(&directory);
        let data = directory.join("data");
        let program = match product {
            Product::Postgres => postgres(&account, &directory, &data, port),
            Product::Mariadb => mariadb(&account, &directory, &data, port),
        };
        let log = fs::File::create(directory.join("log")).unwrap();
        let mut program = program;
        program.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child =
            program.spawn().unwrap_or_else(|error| panic!("{product:?} cannot be started: {error}: {PACKAGES}"));
        let mut server = Self { product, port, authority, directory, child };
        server.await_start();
        server
    }

    fn await_start(&mut self) {
        let begun = Instant::now();
        let mut failed = String::new();
        while begun.elapsed() < START {
            if let Some(status) = self.child.try_wait().unwrap() {
                failed = format!("it has ended with {status}");
                break;
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                match self.ask("", "SELECT 1") {
                    Ok(_) => return,
                    Err(error) => failed = error,
                }
            }
            thread::sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(20).collect();
        panic!(
            "{:?} has not started: {failed}\nthe end of its log, from the last line on:\n{}",
            self.product,
            last.join("\n")
        );
    }

    /// Returns the name of the administrator.
    pub(crate) fn admin(&self) -> &'static str {
        if self.product == Product::Postgres { "postgres" } else { "root" }
    }

    /// Returns the output of the product's client for statements of the administrator: a line for each row, with `|` or
    /// a tabulator between columns.
    ///
    /// # Errors
    /// The output of the client when it fails.
    pub(crate) fn ask(&self, database: &str, statements: &str) -> Result<String, String> {
        self.ask_as(self.admin(), PASSWORD, database, statements)
    }

    /// The same for another user.
    ///
    /// # Errors
    /// The output of the client when it fails.
    pub(crate) fn ask_as(
        &self,
        user: &str,
        password: &str,
        database: &str,
        statements: &str,
    ) -> Result<String, String> {
        let port = self.port.to_string();
        let mut client = match self.product {
            Product::Postgres => {
                let mut client = Command::new("psql");
                client.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &port, "-U", user]);
                client.args(["-d", if database.is_empty() { "postgres" } else { database }, "-c", statements]);
                client.env("PGPASSWORD", password);
                client
            }
            Product::Mariadb => {
                let mut client = Command::new("mariadb");
                client.args([
                    "--no-defaults",
                    "-N",
                    "-B",
                    "-h",
                    "127.0.0.1",
                    "-P",
                    &port,
                    "-u",
                    user,
                    "-e",
                    statements,
                ]);
                client.args([database].iter().filter(|database| !database.is_empty()));
                client.env("MYSQL_PWD", password);
                client
            }
        };
        let output = output(&mut client);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The account of a server: the servers refuse to run as root.
struct Account(Option<(u32, u32)>);

impl Account {
    fn of(product: Product) -> Self {
        if printed(Command::new("id").arg("-u")).trim() != "0" {
            return Self(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").unwrap();
        let wanted = if product == Product::Postgres { "postgres" } else { "mysql" };
        let number = |name: &str| {
            let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut parts = line.split(':').skip(2);
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        };
        Self(Some(number(wanted).or_else(|| number("nobody")).expect("an account without rights")))
    }

    fn own(&self, directory: &Path) {
        let Some((user, group)) = self.0 else { return };
        for entry in fs::read_dir(directory).unwrap() {
            chown(entry.unwrap().path(), Some(user), Some(group)).unwrap();
        }
        chown(directory, Some(user), Some(group)).unwrap();
    }

    /// Returns a program that runs under the account, and ends with the thread that starts it.
    fn program(&self, path: &Path) -> Command {
        let mut program = Command::new("setpriv");
        program.arg("--pdeathsig=KILL");
        if let Some((user, group)) = self.0 {
            program.arg(format!("--reuid={user}")).arg(format!("--regid={group}")).arg("--clear-groups");
        }
        program.arg(path).current_dir("/");
        program
    }
}

/// Makes an authority and a certificate for `localhost`, and returns the authority.
fn certify(directory: &Path) -> String {
    let at = |name: &str| directory.join(name).display().to_string();
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2"];
    let (ca, ca_key, key, csr, certificate) =
        (at("ca.pem"), at("ca.key"), at("server.key"), at("server.csr"), at("server.pem"));
    fs::write(directory.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    let openssl = |arguments: &[&str]| drop(printed(Command::new("openssl").args(arguments)));
    openssl(&[&["req", "-x509", "-subj", "/CN=databases", "-keyout", &ca_key, "-out", &ca], &curve[..]].concat());
    openssl(&[&["req", "-subj", "/CN=localhost", "-keyout", &key, "-out", &csr], &curve[..5]].concat());
    let names = at("names");
    openssl(&[
        "x509",
        "-req",
        "-in",
        &csr,
        "-CA",
        &ca,
        "-CAkey",
        &ca_key,
        "-days",
        "2",
        "-extfile",
        &names,
        "-out",
        &certificate,
    ]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::read_to_string(&ca).unwrap()
}

fn postgres(account: &Account, directory: &Path, data: &Path, port: u16) -> Command {
    let bin = postgres_programs();
    let password = directory.join("password");
    fs::write(&password, PASSWORD).unwrap();
    let mut init = account.program(&bin.join("initdb"));
    init.arg("-D").arg(data).arg(format!("--pwfile={}", password.display()));
    init.args(["-U", "postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]);
    printed(&mut init);
    let mut server = account.program(&bin.join("postgres"));
    server.arg("-D").arg(data).arg("-p").arg(port.to_string());
    for setting in
        ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "ssl=on", "max_connections=40"]
    {
        server.args(["-c", setting]);
    }
    for (setting, file) in [("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")] {
        server.arg("-c").arg(format!("{setting}={}", directory.join(file).display()));
    }
    server
}

/// Returns the directory of the programs of PostgreSQL, which Debian keeps by version.
fn postgres_programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = versions.chain(std::env::split_paths(&path).collect::<Vec<_>>());
    let found = candidates.filter(|bin| bin.join("postgres").exists() && bin.join("initdb").exists()).max();
    found.unwrap_or_else(|| panic!("there is no PostgreSQL server: {PACKAGES}"))
}

fn mariadb(account: &Account, directory: &Path, data: &Path, port: u16) -> Command {
    let mut install = account.program(Path::new("mariadb-install-db"));
    install.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-flush-method=nosync"]);
    printed(&mut install);
    let statements = format!(
        "DELETE FROM mysql.global_priv WHERE User = 'root' AND Host <> 'localhost';\n\
         FLUSH PRIVILEGES;\n\
         ALTER USER root@localhost IDENTIFIED BY '{PASSWORD}';\n\
         CREATE USER root@'%' IDENTIFIED BY '{PASSWORD}';\n\
         GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"
    );
    let init = directory.join("init.sql");
    fs::write(&init, statements).unwrap();
    let daemon = ["/usr/sbin/mariadbd", "/usr/sbin/mysqld"].iter().map(Path::new).find(|path| path.exists());
    let mut server = account.program(daemon.unwrap_or(Path::new("mariadbd")));
    server.arg("--no-defaults").arg(format!("--port={port}"));
    let paths = [
        ("datadir", data.to_owned()),
        ("socket", directory.join("socket")),
        ("pid-file", directory.join("pid")),
        ("init-file", init),
        ("ssl-ca", directory.join("ca.pem")),
        ("ssl-cert", directory.join("server.pem")),
        ("ssl-key", directory.join("server.key")),
    ];
    for (option, path) in paths {
        server.arg(format!("--{option}={}", path.display()));
    }
    server.args([
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        "--innodb-flush-method=nosync",
        "--innodb-buffer-pool-size=32M",
    ]);
    server
}

/// Runs a program, and returns its output.
fn printed(program: &mut Command) -> String {
    let output = output(program);
    assert!(
        output.status.success(),
        "{program:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program to its end. Like `Command::output`, but with a time limit.
fn output(program: &mut Command) -> Output {
    let started = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| panic!("{program:?}: {error}: {PACKAGES}"));
    let (stdout, stderr) = (read(child.stdout.take().unwrap()), read(child.stderr.take().unwrap()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() >= LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{program:?} is killed: it has run for {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(5));
    };
    let text = |pipe: Receiver<Vec<u8>>| {
        pipe.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("the output of {program:?}: {error}"))
    };
    Output { status, stdout: text(stdout), stderr: text(stderr) }
}

/// Reads a pipe, and sends its whole text at the end.
fn read(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).unwrap();
        // The receiver is gone after the limit.
        let _ = sender.send(text);
    });
    receiver
}
