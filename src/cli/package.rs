//! `kopfd package`: writes the documents that bring operators into a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use clap::Args;

use crate::handling::rights::rights;
use crate::kit::{counted, errors};
use crate::manifest::Operator;
use crate::manifest::operator::Moment;
use crate::manifest::rights::PeeringUse;
use crate::packaging::files::FilesError;
use crate::packaging::{self, FileTree, Files, Form, MARK, MountedSecret, Package, RELEASE_NAMESPACE, webhooks};
use crate::persistence::SecretForm;
use crate::reactor::Scope;

use super::exit_code::{FAILURE, SUCCESS, USAGE_ERROR};
use super::manifests::{Manifests, Target, load};
use super::output::{print_error, print_error_with_hint, print_warning, quoted};
use super::rbac::{self, Asked};
use super::run;

/// The folder of the key of digests in a container, and its file.
const KEY_FOLDER: &str = "/secrets-key";

/// Namespaces of the cluster itself, which are not made and not labelled.
const FOREIGN: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Options of the command.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    manifests: Manifests,
    /// Documents for `kubectl apply`. This is the default; without `-o` they are printed.
    #[arg(long)]
    plain: bool,
    /// A base for kustomize.
    #[arg(long, conflicts_with = "plain", requires = "output")]
    kustomize: bool,
    /// A chart for Helm.
    #[arg(long, conflicts_with_all = ["plain", "kustomize"], requires = "output")]
    helm: bool,
    /// The directory. It is new or empty, or has an earlier package, which is replaced.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The operators serve all namespaces. This is the default.
    #[arg(long, short = 'A', env = "KOPFD_ALL_NAMESPACES", conflicts_with = "namespaces")]
    all_namespaces: bool,
    /// The operators serve the namespaces of a pattern, such as `prod-*`. May be repeated. [env: KOPFD_NAMESPACES,
    /// separated by spaces]
    #[arg(long = "namespace", short = 'n', value_name = "PATTERN")]
    namespaces: Vec<String>,
    /// The namespace in which the operators run. Defaults to the name; that of a chart is chosen when it is installed.
    #[arg(long, alias = "namespace-of-operator", value_name = "NAMESPACE")]
    operator_namespace: Option<String>,
    /// The name of the Deployment, the service account, and of what belongs to them. Defaults to the name of the
    /// operator.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The image, whose entry point is kopfd.
    #[arg(long, value_name = "IMAGE", default_value = concat!("kopfd:", env!("CARGO_PKG_VERSION")))]
    image: String,
    /// The number of pods. With several, they elect the one that handles.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    replicas: u16,
    /// The name of a peering object, which belongs to the package.
    #[arg(long, short = 'P', value_name = "NAME")]
    peering: Option<String>,
    /// The files are in this directory of the image, and not in a ConfigMap.
    #[arg(long, value_name = "DIR")]
    files_in_image: Option<String>,
    /// The Secret with the key of the digests of Secrets in its entry `key`, for the setting `persistence.secrets:
    /// digests`.
    #[arg(long, value_name = "NAME")]
    secrets_key: Option<String>,
    /// The Secret with the files of the certificate of webhooks, for settings with `certfile`.
    #[arg(long, value_name = "NAME")]
    certificate_secret: Option<String>,
    /// The operators apply the definitions of their kinds when they start.
    #[arg(long)]
    apply_crds: bool,
    /// Have metrics collected by the Prometheus operator.
    #[arg(long)]
    service_monitor: bool,
}

/// A problem, and how to solve it.
type Problem = (String, String);

/// Runs the command.
pub(super) fn run(options: &Options) -> u8 {
    let Some(paths) = options.manifests.required("package") else { return USAGE_ERROR };
    let scope = match run::scope_of(options.all_namespaces, &options.namespaces) {
        Ok(scope) => scope,
        Err(problem) => {
            print_error(&problem);
            return USAGE_ERROR;
        }
    };
    let Some(operators) = load(&paths, Target::Cluster) else { return FAILURE };
    let package = match options.package(&operators, &paths, &scope) {
        Ok(Some(package)) => package,
        Ok(None) => return FAILURE,
        Err((problem, hint)) => {
            print_error_with_hint(&problem, &hint);
            return FAILURE;
        }
    };
    warn_of_webhooks(&operators, options.replicas);
    let Some(directory) = &options.output else {
        let mut stdout = anstream::stdout().lock();
        // A closed standard output, as with `head`, is not an error.
        drop(stdout.write_all(packaging::stream(&package).as_bytes()).and_then(|()| stdout.flush()));
        return SUCCESS;
    };
    let files = packaging::arrange(&package, options.form());
    match replace(directory, &files) {
        Ok(()) => {
            print_next_steps(directory, options, &package, &files);
            SUCCESS
        }
        Err((problem, hint)) => {
            print_error_with_hint(&problem, &hint);
            FAILURE
        }
    }
}

impl Options {
    fn form(&self) -> Form {
        match (self.helm, self.kustomize) {
            (true, _) => Form::Helm,
            (_, true) => Form::Kustomize,
            _ => Form::Plain,
        }
    }

    /// Returns the package; nothing if a problem with the rights was reported.
    fn package(&self, operators: &[Operator], paths: &[PathBuf], scope: &Scope) -> Result<Option<Package>, Problem> {
        let name = self.name_of(operators)?;
        let namespace = match &self.operator_namespace {
            Some(namespace) => namespace.clone(),
            None if self.helm => RELEASE_NAMESPACE.to_owned(),
            None => name.replace('.', "-"),
        };
        let mandatory = operators
            .iter()
            .map(|operator| &operator.settings.peering)
            .find(|peering| peering.mandatory && !peering.standalone);
        let peering = self.peering.clone().or_else(|| mandatory.map(|peering| peering.name.clone()));
        let used = peering.clone().map_or(PeeringUse::Never, PeeringUse::Named);
        let asked = Asked { peering: used, leader_elect: self.replicas > 1, lease: None, apply_crds: self.apply_crds };
        let Some(needs) = rbac::needs(&asked, operators, scope) else { return Ok(None) };
        let (key_file, secrets) = self.secrets(operators)?;
        let services = webhooks::services(operators, &namespace, self.replicas)
            .map_err(|error| (error.to_string(), error.hint()))?;
        let served = match scope {
            Scope::Cluster => Vec::new(),
            Scope::Namespaces(patterns) => patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
        };
        // A chart that serves the namespace in which it is installed has one role there.
        let rights = rights(&needs, &rbac::layout(scope, &namespace));
        Ok(Some(Package {
            has_namespace: !FOREIGN.contains(&namespace.as_str()),
            name,
            namespace,
            image: self.image.clone(),
            replicas: self.replicas,
            served,
            peering,
            rights,
            definitions: definitions(operators),
            files: self.files(operators, paths)?,
            webhooks: services,
            secrets,
            key_file,
            grace: packaging::grace(operators).as_secs(),
            finalizers: operators
                .iter()
                .map(|operator| operator.settings.persistence.storages.finalizer.clone())
                .collect(),
            has_programs: operators.iter().any(|operator| !operator.declaration.allow.exec.is_empty()),
            has_probes: operators
                .iter()
                .flat_map(|operator| &operator.activities)
                .any(|activity| activity.moment == Moment::Probe),
            has_service_monitor: self.service_monitor,
            applies_definitions: self.apply_crds,
        }))
    }

    fn name_of(&self, operators: &[Operator]) -> Result<String, Problem> {
        match (&self.name, operators) {
            (Some(name), _) => Ok(name.clone()),
            (None, [operator]) => Ok(operator.name.clone()),
            (None, _) => Err((
                "several operators run in one Deployment, which needs a name".to_owned(),
                "name it by `--name NAME`".to_owned(),
            )),
        }
    }

    fn files(&self, operators: &[Operator], paths: &[PathBuf]) -> Result<Files, Problem> {
        let failed = |error: FilesError| (errors::chain(&error), IN_IMAGE_HINT.to_owned());
        let Some(folder) = &self.files_in_image else {
            return FileTree::read(operators, paths).map(Files::Mounted).map_err(failed);
        };
        let folder = folder.trim_end_matches('/');
        let path = |name: &String| if name == "." { folder.to_owned() } else { format!("{folder}/{name}") };
        let manifests = FileTree::manifests_of(operators, paths).map_err(failed)?;
        Ok(Files::InImage { manifests: manifests.iter().map(path).collect() })
    }

    /// Returns the file with the key of digests, and the Secrets to mount.
    fn secrets(&self, operators: &[Operator]) -> Result<(Option<String>, Vec<MountedSecret>), Problem> {
        let mut secrets = Vec::new();
        let needs_key =
            |operator: &&Operator| operator.settings.persistence.storages.secrets.form == SecretForm::Digests;
        let key_file = match (&self.secrets_key, operators.iter().find(needs_key)) {
            (Some(secret), _) => {
                secrets.push(MountedSecret {
                    volume: "secrets-key",
                    secret: secret.clone(),
                    path: KEY_FOLDER.to_owned(),
                });
                Some(format!("{KEY_FOLDER}/key"))
            }
            (None, Some(operator)) => {
                let problem = format!(
                    "the setting persistence.secrets of operator '{}' is `digests`, and needs a key",
                    operator.name
                );
                return Err((problem, "name a Secret with the entry `key` by `--secrets-key NAME`".to_owned()));
            }
            (None, None) => None,
        };
        let folder = webhooks::certificate_folder(operators).map_err(|error| (error.to_string(), error.hint()))?;
        match (folder, &self.certificate_secret) {
            (Some(path), Some(secret)) => {
                secrets.push(MountedSecret { volume: "certificate", secret: secret.clone(), path });
            }
            (Some(_), None) => {
                let error = webhooks::WebhookError::Files(
                    operators.first().map(|operator| operator.name.clone()).unwrap_or_default(),
                );
                return Err((error.to_string(), error.hint()));
            }
            (None, Some(_)) => {
                let problem =
                    "`--certificate-secret` is for a certificate in files, but no settings name any".to_owned();
                return Err((
                    problem,
                    "leave it out, or set `certfile` and `pkeyfile` in `settings.admission.server`".to_owned(),
                ));
            }
            (None, None) => {}
        }
        Ok((key_file, secrets))
    }
}

/// The hint for files that do not fit into a ConfigMap.
const IN_IMAGE_HINT: &str = "put the files into the image, and name their directory there by `--files-in-image DIR`";

/// Returns the definitions of kinds by the names of their files.
fn definitions(operators: &[Operator]) -> BTreeMap<String, String> {
    let mut definitions: BTreeMap<String, String> = BTreeMap::new();
    for (path, text) in operators.iter().flat_map(|operator| operator.crds.iter().zip(&operator.definitions)) {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let names = std::iter::once(format!("{name}.yaml")).chain((2..).map(|number| format!("{name}-{number}.yaml")));
        // Operators may share a file, and different files a name.
        let free = names
            .into_iter()
            .find(|name| definitions.get(name).is_none_or(|known| **known == **text))
            .expect("a number is free");
        definitions.insert(free, text.to_string());
    }
    definitions
}

/// Warns about webhooks that are never called, and those that fail whenever one of several pods ends.
fn warn_of_webhooks(operators: &[Operator], replicas: u16) {
    for operator in operators {
        let transient: Vec<String> = operator
            .webhooks
            .iter()
            .filter(|webhook| !webhook.is_persistent)
            .map(|webhook| format!("'{}'", webhook.handler.id))
            .collect();
        if operator.settings.admission.managed.is_none() && !operator.webhooks.is_empty() {
            print_warning(
                &format!(
                    "operator '{}' does not manage the configurations of its webhooks: the API server calls none",
                    operator.name
                ),
                "set `settings.admission.managed`, or apply configurations of your own",
            );
        } else if replicas > 1 && !transient.is_empty() {
            print_warning(
                &format!(
                    "webhooks of operator '{}' are taken out of their configuration when a pod ends, until another one adds them again: {}",
                    operator.name,
                    transient.join(", ")
                ),
                "declare them with `persistent: true`",
            );
        }
    }
}

/// Replaces an earlier package in a directory by another one.
fn replace(directory: &Path, files: &BTreeMap<String, String>) -> Result<(), Problem> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| {
            (format!("cannot write {path}: {error}"), "choose another directory by `-o DIR`".to_owned())
        }
    };
    let mark = directory.join(MARK);
    let former: BTreeSet<String> = std::fs::read_to_string(&mark)
        .unwrap_or_default()
        .lines()
        .filter(|line| is_inside(line))
        .map(str::to_owned)
        .collect();
    let is_empty = std::fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty && !mark.exists() {
        let problem = format!("the directory {} has other files", directory.display());
        return Err((problem, "choose a new or empty directory by `-o DIR`".to_owned()));
    }
    if let Some(other) = files.keys().find(|path| !former.contains(*path) && directory.join(path).exists()) {
        let problem = format!("{} is no file of the earlier package", directory.join(other).display());
        return Err((problem, "move it away, or choose another directory by `-o DIR`".to_owned()));
    }
    for path in former.iter().filter(|path| !files.contains_key(*path)) {
        // It may be gone already.
        drop(std::fs::remove_file(directory.join(path)));
        for folder in Path::new(path).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            // Folders with other files stay.
            drop(std::fs::remove_dir(directory.join(folder)));
        }
    }
    let list = files.keys().cloned().collect::<Vec<_>>().join("\n") + "\n";
    // The list comes first: after any failure, the next package replaces the existing files.
    for (path, text) in std::iter::once((MARK, &list)).chain(files.iter().map(|(path, text)| (path.as_str(), text))) {
        let path = directory.join(path);
        let folder = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text)).map_err(failed(&path))?;
    }
    Ok(())
}

/// Tells whether a listed path is below the directory.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

fn print_next_steps(directory: &Path, options: &Options, package: &Package, files: &BTreeMap<String, String>) {
    let place = quoted(&directory.display().to_string());
    let mut lines = vec![
        format!("created {} in {place}", counted(files.len(), "file")),
        String::new(),
        "Apply it:".to_owned(),
        String::new(),
    ];
    let has_definitions = files.keys().any(|path| path.starts_with("crds/"));
    let namespace =
        if package.namespace == RELEASE_NAMESPACE { package.name.replace('.', "-") } else { package.namespace.clone() };
    match options.form() {
        Form::Helm => lines.push(format!(
            "    helm upgrade --install {} {place} --namespace {namespace} --create-namespace",
            package.name
        )),
        form => {
            let flag = if form == Form::Kustomize { "-k" } else { "-f" };
            if has_definitions {
                lines.push(format!("    kubectl apply --server-side {flag} {place}/crds"));
            }
            lines.push(format!("    kubectl apply --server-side {flag} {place}"));
        }
    }
    lines.push(String::new());
    lines.push(format!("The pods run the image {}; another one is named by `--image`.", package.image));
    let mut stdout = anstream::stdout().lock();
    // A closed standard output is not an error.
    drop(writeln!(stdout, "{}", lines.join("\n")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> BTreeMap<String, String> {
        names.iter().map(|name| ((*name).to_owned(), format!("{name}\n"))).collect()
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_package_replaces_an_earlier_one_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("deploy");
        replace(&directory, &files(&["a.yaml", "crds/b.yaml"])).unwrap();
        std::fs::write(directory.join("mine.yaml"), "mine").unwrap();
        replace(&directory, &files(&["a.yaml", "c.yaml"])).unwrap();
        assert_eq!(names(&directory), [MARK, "a.yaml", "c.yaml", "mine.yaml"]);
        let (problem, _) = replace(&directory, &files(&["mine.yaml"])).unwrap_err();
        assert!(problem.ends_with("mine.yaml is no file of the earlier package"), "{problem}");
        assert_eq!(std::fs::read_to_string(directory.join("mine.yaml")).unwrap(), "mine");
    }

    #[test]
    fn a_directory_with_other_files_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.yaml"), "mine").unwrap();
        assert!(replace(folder.path(), &files(&["b.yaml"])).unwrap_err().0.ends_with("has other files"));
        assert_eq!(names(folder.path()), ["a.yaml"]);
    }

    #[test]
    fn a_list_of_files_names_none_outside() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("deploy");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(folder.path().join("mine"), "mine").unwrap();
        std::fs::write(directory.join(MARK), format!("../mine\n{}\n", folder.path().join("mine").display())).unwrap();
        replace(&directory, &files(&["a.yaml"])).unwrap();
        assert!(folder.path().join("mine").exists());
    }
}
