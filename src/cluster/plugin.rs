//! Credential plug-ins: programs named by a kubeconfig, which print a token or a certificate.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::LoginError;

/// Stores the credentials of the plug-in, if there is one, in the fields that a kubeconfig has for them. Returns when
/// they expire.
///
/// It runs once for each login, since it may ask the user. It blocks.
///
/// # Errors
/// If the plug-in cannot be run, fails, or prints no credentials.
pub(crate) fn resolve(auth: &mut AuthInfo) -> Result<Option<Timestamp>, LoginError> {
    let Some(exec) = auth.exec.take() else { return Ok(None) };
    let name = exec.command.clone().unwrap_or_default();
    let failed = |problem: String| LoginError::Plugin { command: name.clone(), problem };
    let printed = run(&exec).map_err(failed)?;
    let status = parse(&printed).map_err(failed)?;
    if let Some(token) = status.token {
        auth.token = Some(token.into());
    }
    if let (Some(certificate), Some(key)) = (status.client_certificate_data, status.client_key_data) {
        auth.client_certificate_data = Some(STANDARD.encode(certificate));
        auth.client_key_data = Some(STANDARD.encode(key).into());
    }
    Ok(status.expiration_timestamp)
}

#[derive(Deserialize)]
struct Credential {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<Timestamp>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

fn run(exec: &ExecConfig) -> Result<Vec<u8>, String> {
    let command = exec.command.as_deref().ok_or("the kubeconfig names no command")?;
    let is_terminal = std::io::stdin().is_terminal();
    let is_interactive = is_terminal && exec.interactive_mode != Some(ExecInteractiveMode::Never);
    if !is_terminal && exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err("it has to ask the user, but there is no terminal".to_owned());
    }
    let mut process = Command::new(command);
    process
        .args(exec.args.iter().flatten())
        .envs(exec.env.iter().flatten().filter_map(variable))
        .env("KUBERNETES_EXEC_INFO", request(exec, is_interactive)?.to_string())
        .stdin(if is_interactive { Stdio::inherit() } else { Stdio::null() })
        .stderr(if is_interactive { Stdio::inherit() } else { Stdio::piped() })
        .stdout(Stdio::piped());
    let hint = exec.install_hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let output =
        process.spawn().and_then(std::process::Child::wait_with_output).map_err(|error| format!("{error}{hint}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stderr = stderr.trim();
    Err(if stderr.is_empty() { output.status.to_string() } else { format!("{}: {stderr}", output.status) })
}

fn variable(entry: &HashMap<String, String>) -> Option<(&String, &String)> {
    Some((entry.get("name")?, entry.get("value")?))
}

/// Returns the input of the plug-in.
fn request(exec: &ExecConfig, is_interactive: bool) -> Result<Value, String> {
    let mut spec = json!({"interactive": is_interactive});
    if let (true, Some(cluster)) = (exec.provide_cluster_info, &exec.cluster) {
        spec["cluster"] = serde_json::to_value(cluster).map_err(|error| error.to_string())?;
    }
    Ok(json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec}))
}

fn parse(printed: &[u8]) -> Result<Status, String> {
    let credential: Credential =
        serde_json::from_slice(printed).map_err(|error| format!("it printed no ExecCredential: {error}"))?;
    let status = credential.status.ok_or("it printed an ExecCredential without a status")?;
    let has_certificate = status.client_certificate_data.is_some() && status.client_key_data.is_some();
    if status.token.is_none() && !has_certificate {
        return Err("it printed neither a token nor a certificate with its key".to_owned());
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_plugin(script: &str) -> AuthInfo {
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
                          "env": [{"name": "WHO", "value": "me"}], "interactiveMode": "Never"});
        AuthInfo { exec: serde_json::from_value(exec).unwrap(), ..AuthInfo::default() }
    }

    #[test]
    fn a_token_has_an_expiration_time() {
        let script = r#"echo "{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t-$WHO\",\"expirationTimestamp\":\"2030-01-01T00:00:00Z\"}}""#;
        let mut auth = with_plugin(script);
        assert_eq!(resolve(&mut auth).unwrap().unwrap().to_string(), "2030-01-01T00:00:00Z");
        assert_eq!(serde_json::to_value(&auth).unwrap()["token"], "t-me");
    }

    #[test]
    fn a_certificate_takes_the_place_of_one_in_the_file() {
        let mut auth = with_plugin(r#"echo '{"status":{"clientCertificateData":"PEM","clientKeyData":"KEY"}}'"#);
        assert_eq!(resolve(&mut auth).unwrap(), None);
        assert_eq!(auth.client_certificate_data.as_deref(), Some("UEVN"));
    }

    #[test]
    fn failures_of_plugins_are_reported() {
        let problem = |script: &str| resolve(&mut with_plugin(script)).unwrap_err().to_string();
        assert!(problem("echo no login >&2; exit 3").ends_with("exit status: 3: no login"));
        assert!(problem("echo hello").contains("no ExecCredential"));
        assert!(problem("echo '{\"status\":{}}'").contains("neither a token nor a certificate"));
    }
}
