"""submit_files.py KIND FILE: that a file of `rueda submit` has what its platform requires.

The job is tests/cli/submit_cases.sh's: project Digits, 2 workers of 2 processes, 4 cpus, 64 MiB and 2 GPUs
each, DATA and two lines. Where more thorough checkers are installed, they look, too. KIND script prints the
script of an MPIJob; KIND variables compares with the -x NAME=VALUE that follow.
"""
import sys

try:
    import yaml
except ImportError:
    print("SKIPPED: no yaml in this Python (package python3-yaml)")
    sys.exit(77)

DATA = "it's $(here) $$ \"there\""


def pod_is_right(pod, container, expands):
    assert pod["restartPolicy"] == "Never" if "restartPolicy" in pod else True
    assert container["image"] == "registry.example/digits:1"
    env = {v["name"]: v.get("value") for v in container.get("env", [])}
    if expands:
        assert expand(env["DATA"]) == DATA, env["DATA"]
        assert env["OMP_NUM_THREADS"] == "2"
    limits = container.get("resources", {}).get("limits")
    if limits is not None:
        assert limits == {"cpu": 4, "memory": "64Mi", "nvidia.com/gpu": 2}, limits


def expand(text):
    """As Kubernetes: $$ is a dollar, $(NAME) of a variable that is not there stays."""
    result, at = "", 0
    while at < len(text):
        if text.startswith("$$", at):
            result, at = result + "$", at + 2
        else:
            assert not text.startswith("$(", at), f"Kubernetes would look for {text[at:]}"
            result, at = result + text[at], at + 1
    return result


def mpijob(documents):
    (job,) = documents
    assert job["apiVersion"] == "kubeflow.org/v2beta1" and job["kind"] == "MPIJob"
    assert job["metadata"]["name"] == "digits" and job["metadata"]["namespace"] == "lab"
    spec = job["spec"]
    assert spec["slotsPerWorker"] == 2 and spec["runPolicy"]["backoffLimit"] == 0
    launcher, worker = (spec["mpiReplicaSpecs"][k] for k in ("Launcher", "Worker"))
    assert launcher["replicas"] == 1 and worker["replicas"] == 2
    for replica, has_env in (launcher, True), (worker, False):
        assert replica["restartPolicy"] == "Never"
        pod = replica["template"]["spec"]
        pod_is_right(pod, pod["containers"][0], has_env)
    script = expand(launcher["template"]["spec"]["containers"][0]["args"][0])
    assert script.startswith("set -e\nfor host in $(cut -d ' ' -f 1 /etc/mpi/hostfile "), script
    assert "\nmpirun --allow-run-as-root -np 4 --bind-to none" in script
    assert script.count("mpirun") == 2 and " -x DATA " in script
    assert "CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK" in script
    assert script.count("export RUEDA_RANK=$OMPI_COMM_WORLD_RANK ") == 2  # in each line
    assert worker["template"]["spec"]["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]


def script(documents):
    """Prints what the launcher of an MPIJob runs."""
    spec = documents[0]["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    print(expand(spec["containers"][0]["args"][0]))


def indexed(documents):
    secret, service, job = documents
    assert [d["kind"] for d in documents] == ["Secret", "Service", "Job"]
    assert all(d["metadata"]["namespace"] == "lab" for d in documents)
    key = secret["stringData"]["key"]
    assert len(key) == 64 and int(key, 16) > 0
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"]
    spec = job["spec"]
    assert job["apiVersion"] == "batch/v1" and spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == 2 and spec["backoffLimit"] == 0
    pod = spec["template"]["spec"]
    selector = service["spec"]["selector"].items()
    assert selector <= spec["template"]["metadata"]["labels"].items()
    assert pod["subdomain"] == service["metadata"]["name"] and pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    pod_is_right(pod, container, True)
    assert container["command"] == ["rueda", "run", "-np", "2", "--", "rueda", "part"]
    index, place, first, second = container["args"]
    assert index == "$(JOB_COMPLETION_INDEX)/2" and place == "digits-0.digits:23000"
    assert expand(first).endswith("echo \"$DATA\" '$x' $(echo sub) $$"), first
    assert expand(second).endswith("for i in 1 2; do\n  echo $i\ndone"), second
    source = container["env"][0]["valueFrom"]["secretKeyRef"]
    assert source == {"name": secret["metadata"]["name"], "key": "key"}
    check_by_schema(documents)


def variables(documents):
    (container,) = documents[2]["spec"]["template"]["spec"]["containers"]
    found = {v["name"]: v.get("value") for v in container["env"]}
    given = dict(word.split("=", 1) for word in sys.argv[3:] if word != "-x")
    assert len(given) > 20
    for name, value in given.items():
        assert found[name] == value, (name, found[name], value)


def check_by_schema(documents):
    try:
        import kubernetes_validate
    except ImportError:
        return
    for document in documents:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def azureml(documents):
    (job,) = documents
    assert job["type"] == "command" and job["$schema"].endswith("/commandJob.schema.json")
    assert job["compute"] == "azureml:eight-machines" and job["code"] == "src"
    assert job["resources"] == {"instance_count": 2}
    assert job["distribution"] == {"type": "mpi", "process_count_per_instance": 2}
    assert job["environment"] == {"build": {"path": "docker", "dockerfile_path": "Dockerfile"}}
    assert job["environment_variables"] == {"DATA": DATA, "OMP_NUM_THREADS": "2"}
    assert job["inputs"] == {"IMAGES": {"type": "uri_folder", "path": "./images"}}
    inputs, ranks, _, horovods, rest = job["command"].split(" && ", 4)
    assert inputs == 'export IMAGES="${{inputs.IMAGES}}"'
    assert ranks.startswith("export RUEDA_RANK=$OMPI_COMM_WORLD_RANK RUEDA_SIZE=$OMPI_COMM_WORLD_SIZE ")
    assert horovods.startswith("export HOROVOD_RANK=$RUEDA_RANK ")
    assert rest == (
        "export CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK && "
        "echo \"$DATA\" '$x' $(echo sub) $$")
    check_by_azure(sys.argv[2])


def check_by_azure(path):
    try:
        from azure.ai.ml import load_job
    except ImportError:
        return
    job = load_job(path)
    assert job._validate().passed and job.distribution.process_count_per_instance == 2


with open(sys.argv[2], encoding="utf-8") as file:
    globals()[sys.argv[1]](list(yaml.safe_load_all(file)))
