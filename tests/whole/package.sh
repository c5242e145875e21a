#!/bin/sh
# usage: tests/whole/package.sh BUILD   (called by `make test`)
# make deb: the same bytes twice, no complaint of lintian's, and a package that installs into a system of its own, replaces an older
# one, runs there and leaves nothing when it is removed.
set -u
build=$(realpath "$1")
. tests/whole/expect.sh
dir=$(mktemp -d)
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs the tests
trap 'rm -rf "$dir"' EXIT
if ! command -v dpkg-deb >/dev/null; then
    echo "SKIP the package: no dpkg-deb"
    echo "package: 0 passed, 0 failed, 1 skipped"
    exit 0
fi

# BUILD's programs, whatever make thinks of their age; the packages go to $1
deb() { make deb B="$build" DEB_DIR="$1" PROGRAMS="$build/opt4gptq-run $build/opt4gptq-convert $build/opt4gptq-quantize $build/opt4gptq-bench" \
    -o "$build/opt4gptq-run" -o "$build/opt4gptq-convert" -o "$build/opt4gptq-quantize" -o "$build/opt4gptq-bench"; }
mkdir "$dir/a" "$dir/b" "$dir/root"
expect "make deb" deb "$dir/a"
umask 077
export TZ=Pacific/Auckland
expect "make deb again, elsewhere on earth" deb "$dir/b"
umask 022
new=$(echo "$dir"/a/*.deb)
expect "the same bytes" cmp "$new" "$dir/b/$(basename "$new")"
expect "a package for this architecture" test "$(dpkg-deb -f "$new" Architecture)" = "$(dpkg --print-architecture)"
expect "libc is all that it depends on" sh -c "dpkg-deb -f '$new' Depends | grep -Eq '^libc6 \(>= 2\.[0-9]+\)$'"
if command -v lintian >/dev/null; then
    expect "lintian finds no error" lintian --allow-root --fail-on error,warning "$new"
else
    skip "lintian finds no error: no lintian"
fi

# an older one of the same content
dpkg-deb -R "$new" "$dir/old" && sed -i 's/^Version: .*/Version: 0.1+20260101-1/' "$dir/old/DEBIAN/control"
touch "$dir/old/usr/share/doc/opt4gptq-run/of-the-old-one"
dpkg-deb --root-owner-group -b "$dir/old" "$dir/old.deb" >/dev/null
if [ "$(id -u)" = 0 ]; then
    root=$dir/root
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers"
    touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
    into() { dpkg --root="$root" --force-depends --force-unsafe-io --log="$dir/log" "$@"; }
    expect "dpkg installs an older one" into -i "$dir/old.deb"
    expect "dpkg upgrades it" into -i "$new"
    expect "the upgrade removes what the new one has not" test ! -e "$root/usr/share/doc/opt4gptq-run/of-the-old-one"
    for p in run convert quantize bench; do expect "opt4gptq-$p runs" "$root/usr/bin/opt4gptq-$p" --version; done
    expect "every file has the sum in the package" sh -c "cd '$root' && md5sum -c --quiet var/lib/dpkg/info/opt4gptq-run.md5sums"
    expect "dpkg removes it" into -P opt4gptq-run
    find "$root" -path "$root/var" -prune -o -type f -print >"$dir/left"
    expect "nothing is left" test ! -s "$dir/left"
else
    skip "installing it: not root"
fi
echo "package: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
