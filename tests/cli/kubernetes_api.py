"""kubernetes_api.py CONDITION: a server that knows enough of Kubernetes to answer kubectl in a test.

It keeps what is created, refuses what is there already, and says of every job that CONDITION holds and
that it has one pod, whose log is a line. Prints its port; stderr gets the requests.
"""
import http.server
import json
import re
import sys

GROUPS = {
    "v1": [("secrets", "Secret"), ("services", "Service"), ("pods", "Pod")],
    "batch/v1": [("jobs", "Job")],
    "kubeflow.org/v2beta1": [("mpijobs", "MPIJob")],
}
created = {}


def resources_of(group):
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    return [(f"{root}/namespaces/{{namespace}}/{name}/{{name}}", kind) for name, kind in GROUPS[group]]


def schema(path):
    """That the server itself looks at fields, and can do so on paper."""
    if path == "/openapi/v3":
        return {"paths": {("apis/" if "/" in g else "api/") + g:
                          {"serverRelativeURL": f"/openapi/v3/{g}"} for g in GROUPS}}
    group = path[len("/openapi/v3/"):]
    name, _, version = group.rpartition("/")
    parameters = [{"name": n, "in": "query", "schema": {"type": "string"}}
                  for n in ("dryRun", "fieldValidation")]
    return {"openapi": "3.0.0", "info": {"title": "test", "version": "1"}, "paths": {
        path: {"patch": {"parameters": parameters, "responses": {},
                         "x-kubernetes-group-version-kind":
                         {"group": name, "version": version, "kind": kind}}}
        for path, kind in resources_of(group)}}


def discovery(path):
    if path.startswith("/openapi/v3"):
        return schema(path)
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = [g for g in GROUPS if "/" in g]
        versions = [{"groupVersion": g, "version": g.split("/")[1]} for g in groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": v["groupVersion"].split("/")[0], "versions": [v], "preferredVersion": v}
            for v in versions]}
    group = re.sub("^/apis?/", "", path)
    if group not in GROUPS:
        return None
    return {"kind": "APIResourceList", "groupVersion": group, "resources": [
        {"name": name, "singularName": kind.lower(), "kind": kind, "namespaced": True,
         "verbs": ["create", "get", "list"]} for name, kind in GROUPS[group]]}


def pods():
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "digits-0", "namespace": "lab"},
           "spec": {"containers": [{"name": "worker"}]}, "status": {"phase": "Running"}}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod]}


class Answer(http.server.BaseHTTPRequestHandler):
    def send(self, document, status=200):
        if document is None:
            status, document = 404, {"kind": "Status", "status": "Failure", "reason": "NotFound"}
        text = document if isinstance(document, str) else json.dumps(document)
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if text is document else "application/json")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.endswith("/log"):
            self.send("the pod says hello\n")
        elif path.endswith("/pods"):
            self.send(pods())
        elif path in created:
            status = {"conditions": [{"type": sys.argv[1], "status": "True"}]}
            self.send({**created[path], "status": status})
        elif "/pods/" in path:
            self.send(pods()["items"][0])
        else:
            self.send(discovery(path))

    def do_POST(self):
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path, _, query = self.path.partition("?")
        name = document["metadata"]["name"]
        if f"{path}/{name}" in created:
            self.send({"kind": "Status", "status": "Failure", "reason": "AlreadyExists",
                       "message": f"{name} already exists", "code": 409}, 409)
            return
        if "dryRun=All" not in query:
            created[f"{path}/{name}"] = document
        self.send(document, 201)

    def log_message(self, format, *args):
        path, _, query = self.path.partition("?")
        print(self.command, path + (" dryRun=All" if "dryRun=All" in query else ""), file=sys.stderr,
              flush=True)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()
