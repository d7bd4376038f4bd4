"""The examples for other launchers: Open MPI and Slurm (stand-ins that set their variables), Kubernetes manifests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.examples.test_examples import ROOT, number_after

import thalweg as tf
from thalweg.dist.ports import free_ports, is_free

LAUNCHERS = ROOT / "examples" / "launchers"

# Starts a command several times, with the variables that mpirun and srun give to their processes.
STAND_IN = """#!{python}
import os, subprocess, sys
arguments = sys.argv[1:]
count = int(arguments[arguments.index("-np") + 1]) if "-np" in arguments else int(os.environ["SLURM_NTASKS"])
command = arguments[next(i for i, each in enumerate(arguments) if each.endswith("python") or "python3" in each):]
processes = []
for rank in range(count):
    variables = {{"SLURM_PROCID": rank, "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_TASKS": count}}
    if "-np" in arguments:
        variables = {{"RANK": rank, "SIZE": count, "LOCAL_SIZE": count}}
        variables = {{f"OMPI_COMM_WORLD_{{name}}": value for name, value in variables.items()}}
    environment = {{**os.environ, **{{name: str(value) for name, value in variables.items()}}}}
    processes.append(subprocess.Popen(command, env=environment))
sys.exit(max(process.wait() for process in processes))
"""


def port_range(count: int) -> int:
    """The first of several free ports that follow each other."""
    while True:
        first = free_ports(1)[0]
        if first + count < 65536 and all(is_free(first + i) for i in range(count)):
            return first


def run(folder: Path, script: str, *arguments: str, **variables: str) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHON": sys.executable,
        "OMP_WAIT_POLICY": "passive",
        **variables,
    }
    common = ["--steps", "60", "--batch", "32", "--port_base", str(port_range(4))]
    done = subprocess.run(
        ["sh", str(LAUNCHERS / script), *arguments, *common], cwd=folder, env=environment, capture_output=True,
        text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def with_stand_in(folder: Path, name: str) -> str:
    """The PATH with a stand-in for a launcher."""
    (folder / "bin").mkdir()
    path = folder / "bin" / name
    path.write_text(STAND_IN.format(python=sys.executable))
    path.chmod(0o755)
    return f"{path.parent}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.processes
def test_the_example_for_mpirun_trains(tmp_path: Path) -> None:
    output = run(tmp_path, "mpirun.sh", "3", PATH=with_stand_in(tmp_path, "mpirun"))
    assert 50 < number_after("Held-out accuracy: ", output) <= 100


@pytest.mark.processes
def test_the_example_for_slurm_trains(tmp_path: Path) -> None:
    slurm = {"SLURM_NTASKS": "4", "SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(tmp_path)}
    path = with_stand_in(tmp_path, "srun")
    output = run(tmp_path, "slurm.sbatch", PATH=path, THALWEG_EXAMPLES=str(ROOT / "examples"), **slurm)
    assert 50 < number_after("Held-out accuracy: ", output) <= 100
    assert (tmp_path / "mnist-7" / "checkpoint").exists()


# Kubernetes. What a field must be: a type, a dictionary of fields ("?" at its end: optional), or a list of one form.
METADATA = {"name": str, "labels": {"app": str, "job?": str}}
SELECTOR = {"matchLabels": dict}
CONTAINER = {
    "name": str, "image": str, "imagePullPolicy": str, "args": [str], "resources": {"requests": dict, "limits": dict},
    "ports": [{"name": str, "containerPort": int}], "volumeMounts": [{"name": str, "mountPath": str}],
    "env": [{"name": str, "value?": str, "valueFrom?": {
        "fieldRef?": {"fieldPath": str}, "secretKeyRef?": {"name": str, "key": str},
    }}],
}  # fmt: skip
POD = {
    "subdomain": str, "restartPolicy": str, "containers": [CONTAINER],
    "securityContext": {"runAsNonRoot": bool, "runAsUser": int, "fsGroup": int},
    "volumes": [{"name": str, "persistentVolumeClaim": {"claimName": str}}],
}  # fmt: skip
FORMS: dict[str, tuple[str, Any]] = {
    "Service": ("v1", {
        "clusterIP": str, "publishNotReadyAddresses": bool, "selector": dict,
        "ports": [{"name": str, "port": int, "targetPort": int}],
    }),
    "PersistentVolumeClaim": ("v1", {"accessModes": [str], "resources": {"requests": dict}}),
    "NetworkPolicy": ("networking.k8s.io/v1", {
        "podSelector": SELECTOR, "policyTypes": [str],
        "ingress": [{"from": [{"podSelector": SELECTOR}], "ports": [{"protocol": str, "port": int}]}],
    }),
    "Job": ("batch/v1", {
        "completionMode": str, "completions": int, "parallelism": int, "backoffLimit": int,
        "template": {"metadata": {"labels": dict}, "spec": POD},
    }),
}  # fmt: skip


def check(value: Any, form: Any, where: str) -> None:
    """Asserts that a value has a form: all of its fields, and no others."""
    if isinstance(form, dict):
        assert isinstance(value, dict), where
        for field, inner in form.items():
            name = field.removesuffix("?")
            assert name in value or field.endswith("?"), f"{where} lacks {name}"
            if name in value:
                check(value[name], inner, f"{where}.{name}")
        assert set(value) <= {field.removesuffix("?") for field in form}, f"{where} has unknown fields: {set(value)}"
    elif isinstance(form, list):
        assert isinstance(value, list) and value, where
        for i, each in enumerate(value):
            check(each, form[0], f"{where}[{i}]")
    else:
        assert type(value) is form, f"{where} is {value!r}, and not {form.__name__}"


def manifests() -> dict[tuple[str, str], Any]:
    files = sorted((LAUNCHERS / "kubernetes").glob("*.yaml"))
    assert files
    return {(each["kind"], each["metadata"]["name"]): each for f in files for each in yaml.safe_load_all(f.read_text())}


def test_manifests_have_the_fields_of_their_kind() -> None:
    for (kind, name), manifest in manifests().items():
        version, form = FORMS[kind]
        check(manifest, {"apiVersion": str, "kind": str, "metadata": METADATA, "spec": form}, f"{kind} {name}")
        assert manifest["apiVersion"] == version
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)


def test_manifests_fit_the_schemas_of_kubernetes() -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="the kubernetes-validate package is not installed")
    for manifest in manifests().values():
        validator.validate(manifest, "1.30", strict=True)
        validator.validate(manifest, validator.latest_version(), strict=True)


def test_manifests_describe_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    found = manifests()
    service = found["Service", "mnist"]["spec"]
    jobs = {name.rpartition("-")[2]: each["spec"] for (kind, name), each in found.items() if kind == "Job"}
    clusters = set()
    for job, spec in jobs.items():
        assert spec["completions"] == spec["parallelism"] and spec["completionMode"] == "Indexed"
        labels, pod = spec["template"]["metadata"]["labels"], spec["template"]["spec"]
        assert service["selector"].items() <= labels.items() and pod["subdomain"] == "mnist"
        assert found["NetworkPolicy", "mnist"]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        (volume,) = pod["volumes"]
        assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in found
        (container,) = pod["containers"]
        assert container["ports"][0]["containerPort"] == service["ports"][0]["targetPort"]
        names = [each["name"] for each in container["env"]]
        assert names.index("TASK_INDEX") < names.index("TF_CONFIG"), "Kubernetes fills in only variables from above"
        assert "THALWEG_CLUSTER_KEY" in names
        text = next(each["value"] for each in container["env"] if each["name"] == "TF_CONFIG")
        for index in range(spec["completions"]):
            monkeypatch.setenv("TF_CONFIG", text.replace("$(TASK_INDEX)", str(index)))
            resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
            assert (resolver.task_type, resolver.task_id) == (job, index)
            assert resolver.cluster_spec().task_address(job, index) == f"mnist-{job}-{index}.mnist:2222"
            clusters.add(resolver.cluster_spec())
    (cluster,) = clusters
    assert {job: cluster.num_tasks(job) for job in cluster.jobs} == {k: v["completions"] for k, v in jobs.items()}
