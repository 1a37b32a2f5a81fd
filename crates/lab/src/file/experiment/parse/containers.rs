//! Reads `image`, `build` and `compose` of a variant.

use std::path::Path;

use madang_stack::container::{CONTAINER_FILES, Engine};

use super::super::reader::Reader;
use super::super::{Container, ContainerSource};

pub(crate) const KEYS: [&str; 3] = ["image", "build", "compose"];

/// Reads the source of a variant's containers, and the port inside. `dir` is the experiment's directory; `None` for a
/// stored experiment, whose files may be missing.
pub(crate) fn source(
    reader: &mut Reader<'_>,
    dir: Option<&Path>,
) -> (Option<ContainerSource>, Option<u16>) {
    let [image, build, compose] = KEYS.map(|key| reader.text(key));
    let port = reader.whole("port", 1..65536);
    if reader.has("port") && !reader.has("image") && !reader.has("build") {
        reader.refuse("port", "is the port that the server of an `image` or `build` listens at");
    }
    if let (Some(build), Some(dir)) = (&build, dir)
        && !CONTAINER_FILES.iter().any(|file| dir.join(build).join(file).is_file())
    {
        reader.refuse_because("build", format!("there is no Dockerfile in `{build}`"));
    }
    if let (Some(compose), Some(dir)) = (&compose, dir) {
        match Engine::compose_file(&dir.join(compose)).map(std::fs::read_to_string) {
            None => {
                reader.refuse_because("compose", format!("there is no compose file `{compose}`"));
            }
            Some(Ok(text)) if !text.contains("PORT") => {
                let why = format!(
                    "`{compose}` has to publish the server at the port in the variable PORT, such as \
                     `ports: [\"127.0.0.1:${{PORT}}:8080\"]`"
                );
                reader.refuse_because("compose", why);
            }
            Some(_) => {}
        }
    }
    let source = image.map(ContainerSource::Image);
    let source = source.or_else(|| build.map(|dir| ContainerSource::Build(dir.into())));
    let source = source.or_else(|| compose.map(|file| ContainerSource::Compose(file.into())));
    (source, port.and_then(|port| u16::try_from(port).ok()))
}

/// Reports keys that containers cannot have.
pub(crate) fn check(reader: &Reader<'_>, container: &Container) {
    if reader.has("cgroup") {
        reader.refuse("cgroup", "is for other servers: those of containers are known");
    }
    if matches!(container.source, ContainerSource::Compose(_)) {
        for (key, what) in [("command", "commands"), ("cpus", "limits of each service")] {
            if reader.has(key) {
                let why = format!("does not apply to `compose`: the file has the {what}");
                reader.refuse(key, why);
            }
        }
    } else if reader.is_table("cpus") {
        reader.refuse("cpus", "must be a number of cores: containers have no burstable budget");
    }
    if container.port.is_some() && container.shares_network() {
        reader.refuse(
            "port",
            "is not used: with `{port}` in `command` or `env`, the server listens there",
        );
    }
}
