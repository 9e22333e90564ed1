"""Build Kubernetes's own programs, for the tests that start a cluster: `python -m tools.build_kubernetes`.

They come as modules of Go, and become one program in .venv/kubernetes, under the names etcd, kube-apiserver,
kube-controller-manager, kube-scheduler, kubelet and kubectl. That takes about 9 minutes of a processor, 2 GB for what Go keeps,
and a Go of 1.24 or later. Nothing is built a second time. `make soak` uses what is there, and skips those tests without it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION, STAGING, ETCD = "v1.34.4", "v0.34.4", "v3.6.4"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
FOLDER = Path(__file__).resolve().parents[1] / ".venv" / "kubernetes"

MAIN = """\
// Kubernetes's own programs in one: the name that it is called by says which.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	var command *cobra.Command
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = manager.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kubelet":
		command = kubelet.NewKubeletCommand(context.Background())
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
		return
	default:
		fmt.Fprintln(os.Stderr, "no such program:", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
"""


def build(folder: Path = FOLDER) -> Path:
    """Build what is missing in `folder`; return it. Raises CalledProcessError where Go cannot."""
    if all((folder / name).exists() for name in PROGRAMS):
        return folder
    go = shutil.which("go")
    if go is None:
        raise SystemExit("there is no program `go` on PATH: install Go 1.24 or later")
    with tempfile.TemporaryDirectory(prefix="roamlet-kubernetes-") as scratch:
        module = Path(scratch)
        (module / "main.go").write_text(MAIN)
        (module / "go.mod").write_text("module programs\n\ngo 1.24.0\n")

        def run(*words: str) -> str:
            environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
            done = subprocess.run(
                [go, *words], cwd=module, check=True, stdout=subprocess.PIPE, text=True, env=environment
            )
            return done.stdout

        theirs = run("list", "-m", "-f", "{{.GoMod}}", f"k8s.io/kubernetes@{VERSION}").strip()
        staged = sorted(set(re.findall(r"(\S+) => \./staging", Path(theirs).read_text())))
        with (module / "go.mod").open("a") as file:
            file.write(f"\nrequire k8s.io/kubernetes {VERSION}\nrequire go.etcd.io/etcd/server/v3 {ETCD}\n")
            file.writelines(f"replace {name} => {name} {STAGING}\n" for name in staged)
        run("mod", "tidy")
        versions = f"-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"
        run("build", "-trimpath", f"-ldflags={versions}", "-o", "kubernetes", ".")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(str(module / "kubernetes"), folder / "kubernetes")
    for name in PROGRAMS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("kubernetes")
    return folder


if __name__ == "__main__":
    print(build())
    sys.exit(0)
