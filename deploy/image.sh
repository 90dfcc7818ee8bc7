#!/usr/bin/env bash
# Build the image without Docker, and start it as its user on a read-only root. For root on Linux, with buildah.
#   deploy/image.sh                       on the Dockerfile's own base
#   deploy/image.sh IMAGE                 on another
#   deploy/image.sh FOLDER                on a root file system with Python, e.g. from debootstrap
#   BUILT=NAME deploy/image.sh            only start an existing image
set -euo pipefail
cd "$(dirname "$0")/.."
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}
PORT=${PORT:-18431}
MAX_CPU_SECONDS=30 # far less than compiling takes: the image contains its kernels

build() {
    local base=${1:-}
    if [ -d "$base" ]; then
        local container
        container=$(buildah from scratch)
        buildah add --quiet "$container" "$base" /
        buildah config --env PATH=/usr/local/bin:/usr/bin:/bin "$container"
        buildah commit --quiet --rm "$container" localhost/assay-base
        base=localhost/assay-base
    fi
    buildah bud ${base:+--from "$base"} --tag localhost/assay .
}

# Run in a separate mount namespace, so that nothing stays mounted.
start() {
    local root=$1 user=$2 pid status
    shift 2
    mount --bind "$root" "$root"
    mount --bind /proc "$root/proc"
    mount --bind /dev "$root/dev"
    mount -o remount,ro,bind "$root"
    mount -t tmpfs -o size=64m,mode=1777 tmpfs "$root/tmp"
    chroot --userspec="$user" "$root" /usr/bin/env -i "$@" ASSAY_HOST=127.0.0.1 "ASSAY_PORT=$PORT" assay serve &
    pid=$!
    for _ in $(seq 1200); do
        curl --silent --fail --noproxy '*' --output /dev/null "http://127.0.0.1:$PORT/readyz" && break
        kill -0 "$pid"
        sleep 0.1
    done
    check "$root" "$user" "$pid" && status=0 || status=1
    kill -TERM "$pid"
    wait "$pid" || { echo "it exited with $?" && status=1; }
    return "$status"
}

check() {
    local root=$1 user=$2 pid=$3 cpu
    read -r -a fields < "/proc/$pid/stat"
    cpu=$(( (fields[13] + fields[14]) / $(getconf CLK_TCK) ))
    echo "ready after $cpu s of CPU time, as user $(stat --format %u "/proc/$pid")"
    [ "$cpu" -le "$MAX_CPU_SECONDS" ] || { echo "it compiled its kernels again"; return 1; }
    [ "$(stat --format %u:%g "/proc/$pid")" = "$user" ] || { echo "it runs as another user"; return 1; }
    if chroot --userspec="$user" "$root" /usr/bin/touch /var/cache/assay/x 2> /dev/null; then
        echo "the root is writable"
        return 1
    fi
    curl --silent --fail --noproxy '*' "http://127.0.0.1:$PORT/v1/score" -H 'Content-Type: application/json' \
        -d '{"references": ["Step 1: {\"action\": \"add\", \"objects\": [\"pbs\"], \"parameters\": []}"], "responses": ["x"]}' || return 1
    echo
}

if [ "${1:-}" = --start ]; then
    shift
    start "$@"
    exit
fi
[ -n "${BUILT:-}" ] || build "${1:-}"
container=$(buildah from "${BUILT:-localhost/assay}")
trap 'buildah rm "$container" > /dev/null' EXIT
root=$(buildah mount "$container")
mapfile -t environment < <(buildah inspect --format '{{range .OCIv1.Config.Env}}{{println .}}{{end}}' "$container" | grep .)
user=$(buildah inspect --format '{{.OCIv1.Config.User}}' "$container")
unshare --mount bash deploy/image.sh --start "$root" "$user" "${environment[@]}"
echo "the image builds, starts and stops correctly"
