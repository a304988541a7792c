//! The direction in which crates may depend on each other, and what the core may depend on at all.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Finding;

/// Which crates of this repository a crate may depend on. A crate that is not listed is a finding, so that a new one
/// gets its place on purpose.
const ALLOWED: [(&str, &[&str]); 9] = [
    ("mobcast-topology", &[]),
    ("mobcast-proto", &["mobcast-topology"]),
    ("mobcast-net", &["mobcast-proto"]),
    ("mobcast-sim", &["mobcast-proto", "mobcast-topology"]),
    ("mobcast-lab", &["mobcast-topology"]),
    ("mobcast", &["mobcast-net", "mobcast-proto", "mobcast-topology"]),
    ("mobcast-cli", &["mobcast"]),
    ("mobcast-fuzz", &["mobcast-proto"]),
    ("xtask", &[]),
];
/// Programs and instruments: the ends of the graph.
const ENDS: [&str; 5] = ["mobcast-cli", "mobcast-sim", "mobcast-lab", "mobcast-fuzz", "xtask"];
/// Crates from elsewhere that the core may use: none with a clock, dice, files or sockets.
const CORE: &str = "mobcast-proto";
const CORE_LIBRARIES: [&str; 2] = ["blake3", "thiserror"];

/// A crate of the workspace.
#[derive(Clone, Default, Debug)]
pub struct Crate {
    pub name: String,
    /// Relative to the root, like `crates/mobcast-proto`.
    pub dir: String,
    pub dependencies: Vec<Dependency>,
    /// Relative paths of the first files of its libraries and programs.
    pub roots: Vec<String>,
}

/// One crate that another one depends on.
#[derive(Clone, Debug)]
pub struct Dependency {
    pub name: String,
    /// Whether it is only there for tests.
    pub dev: bool,
    /// Whether it is a crate of this repository.
    pub internal: bool,
    /// Features that are asked for, `default` among them where it is not left out.
    pub features: Vec<String>,
}

/// Asks cargo for the workspace's crates.
pub fn read(root: &Path) -> Result<Vec<Crate>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let args = ["metadata", "--format-version", "1", "--no-deps"];
    let output = Command::new(cargo).args(args).current_dir(root).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    Ok(list(&metadata["packages"]).iter().map(|package| parse(package, root)).collect())
}

fn parse(package: &Value, root: &Path) -> Crate {
    let relative = |path: &Value| {
        let path = Path::new(path.as_str().unwrap_or_default());
        path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
    };
    let dependency = |value: &Value| {
        let default = (value["uses_default_features"] == true).then(|| "default".to_owned());
        Dependency {
            name: text(&value["name"]),
            dev: value["kind"] == "dev",
            internal: value["path"].is_string(),
            features: default.into_iter().chain(list(&value["features"]).iter().map(text)).collect(),
        }
    };
    let shipped = |target: &&Value| list(&target["kind"]).iter().any(|kind| kind == "lib" || kind == "bin");
    Crate {
        name: text(&package["name"]),
        dir: relative(&package["manifest_path"]).trim_end_matches("/Cargo.toml").to_owned(),
        dependencies: list(&package["dependencies"]).iter().map(dependency).collect(),
        roots: list(&package["targets"]).iter().filter(shipped).map(|t| relative(&t["src_path"])).collect(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Checks who depends on whom.
pub fn check(crates: &[Crate]) -> Vec<Finding> {
    crates.iter().flat_map(check_crate).collect()
}

fn check_crate(of: &Crate) -> Vec<Finding> {
    let manifest = format!("{}/Cargo.toml", of.dir);
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == of.name) else {
        let mend = "add it to ALLOWED in xtask/src/tidy/dependencies.rs and to the crate map in ARCHITECTURE.md";
        return vec![Finding::new(
            manifest,
            format!("the crate {} has no place in the order of crates", of.name),
            mend,
        )];
    };
    let mut findings = Vec::new();
    for dependency in &of.dependencies {
        let name = dependency.name.as_str();
        let finding =
            |problem: &str, mend: &str| Finding::new(&manifest, format!("{} {problem} {name}", of.name), mend);
        if dependency.internal && name != of.name && ENDS.contains(&name) {
            let mend = "programs and instruments are used by nobody: move what is shared into a library below both";
            findings.push(finding("depends on", mend));
        } else if dependency.internal
            && name != of.name
            && !allowed.contains(&name)
            && !(dependency.dev && is_below(name, &of.name))
        {
            let mend = "dependencies point one way (crate map in ARCHITECTURE.md): move the code, or pass a value";
            findings.push(finding("may not depend on", mend));
        } else if of.name == CORE && !dependency.internal && !dependency.dev && !CORE_LIBRARIES.contains(&name) {
            let mend =
                "the core uses blake3, thiserror and mobcast-topology only: what needs more is the driver's work";
            findings.push(finding("may not use", mend));
        } else if of.name == CORE && dependency.internal && !dependency.dev && !dependency.features.is_empty() {
            let mend = "the core needs no files and no solver: leave the features out, and default-features too";
            findings.push(finding(&format!("may not use {} of", dependency.features.join(", ")), mend));
        }
    }
    findings
}

/// Whether a crate is anywhere below another one: its tests may reach so far, to play a peer that misbehaves.
fn is_below(name: &str, above: &str) -> bool {
    let next = ALLOWED.iter().find(|(crate_name, _)| *crate_name == above).map_or(&[][..], |(_, allowed)| allowed);
    next.iter().any(|&direct| direct == name || is_below(name, direct))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(name: &str, on: &str, internal: bool, dev: bool) -> Vec<String> {
        problems_with(name, Dependency { name: on.into(), dev, internal, features: vec![] })
    }

    fn problems_with(name: &str, dependency: Dependency) -> Vec<String> {
        let dependencies = vec![dependency];
        let of = Crate { name: name.into(), dir: format!("crates/{name}"), dependencies, roots: vec![] };
        check(&[of]).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn the_order_of_the_design_passes() {
        for (name, on) in [("mobcast-cli", "mobcast"), ("mobcast-sim", "mobcast-proto"), ("mobcast", "mobcast-net")] {
            assert_eq!(problems(name, on, true, false), [""; 0]);
        }
        assert_eq!(problems("mobcast-net", "tokio", false, false), [""; 0]);
    }

    #[test]
    fn a_dependency_upwards_is_found() {
        assert_eq!(
            problems("mobcast-proto", "mobcast-net", true, false),
            ["mobcast-proto may not depend on mobcast-net"]
        );
        assert_eq!(problems("mobcast-topology", "mobcast-proto", true, true).len(), 1, "not for tests either");
        assert_eq!(problems("mobcast-cli", "mobcast-net", true, false).len(), 1, "past the library");
        assert_eq!(problems("mobcast-cli", "mobcast-proto", true, true), [""; 0], "a test plays a peer");
    }

    #[test]
    fn nobody_depends_on_programs_and_instruments() {
        for end in ENDS {
            assert_eq!(problems("mobcast-net", end, true, true), [format!("mobcast-net depends on {end}")]);
        }
    }

    #[test]
    fn the_core_uses_nothing_else() {
        assert_eq!(problems("mobcast-proto", "rand", false, false), ["mobcast-proto may not use rand"]);
        assert_eq!(problems("mobcast-proto", "proptest", false, true), [""; 0]);
        assert_eq!(problems("mobcast-proto", "thiserror", false, false), [""; 0]);
    }

    #[test]
    fn the_core_uses_no_features_of_the_crates_below() {
        let topology = |features: &[&str]| Dependency {
            name: "mobcast-topology".into(),
            dev: false,
            internal: true,
            features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        };
        let found = problems_with(CORE, topology(&["default", "lp"]));
        assert_eq!(found, ["mobcast-proto may not use default, lp of mobcast-topology"]);
        assert_eq!(problems_with(CORE, topology(&[])), [""; 0]);
        assert_eq!(problems_with("mobcast-sim", topology(&["files", "lp"])), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        assert_eq!(problems("mobcast-extra", "serde", false, false).len(), 1);
    }

    #[test]
    fn cargo_is_understood() {
        let crates = read(&crate::repository::root()).unwrap();
        let proto = crates.iter().find(|c| c.name == CORE).unwrap();
        assert_eq!(
            (proto.dir.as_str(), &proto.roots[..]),
            ("crates/mobcast-proto", &["crates/mobcast-proto/src/lib.rs".to_owned()][..])
        );
        let has = |name: &str, dev: bool, internal: bool| {
            proto.dependencies.iter().any(|d| (d.name.as_str(), d.dev, d.internal) == (name, dev, internal))
        };
        assert!(has("blake3", false, false) && has("proptest", true, false));
        let sim = crates.iter().find(|c| c.name == "mobcast-sim").unwrap();
        let topology = sim.dependencies.iter().find(|d| d.name == "mobcast-topology").unwrap();
        assert_eq!(topology.features, ["files", "lp"]);
        let net = crates.iter().find(|c| c.name == "mobcast-net").unwrap();
        assert!(net.dependencies.iter().any(|d| d.name == CORE && d.internal));
    }
}
