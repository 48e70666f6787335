#!/usr/bin/env bash
# Tests the archive as its receiver sees it: the checksums are correct and cover all files, the
# program prints the archive's version, and nothing in it depends on where or when it was packed.
#   archive_test.sh ARCHIVE CHECKSUM
set -euo pipefail
export LC_ALL=C
archive=$(realpath -e "$1") checksum=$(realpath -e "$2")
# in the runfiles
libraries=$(find -L "$PWD" -name '*.so*' -path '*libtorch*' -printf '%h\n' | sort --unique \
  | paste --serial --delimiters=:)
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/archive test.XXXX") # a path with a space
unset RUNFILES_DIR TEST_SRCDIR # as outside of Bazel

fail() {
  echo "$1" >&2
  exit 1
}

name=${1##*/}
[[ "$name" =~ ^moonring-([0-9]+\.[0-9]+\.[0-9]+)-linux-x86_64-(cpu|cuda13)\.tar\.gz$ ]] \
  || fail "expected moonring-VERSION-linux-x86_64-cpu or -cuda13.tar.gz, got $name"
version=${BASH_REMATCH[1]} flavor=${BASH_REMATCH[2]} folder=${name%.tar.gz}

# As after a download: the archive and its checksum are in one folder.
cp "$archive" "$work/$name"
cp "$checksum" "$work/$name.sha256"
cd "$work"
sha256sum --check --strict --quiet "$name.sha256"
tar --extract --gzip --file="$name"
[ "$(find . -mindepth 1 -maxdepth 1 -type d)" = "./$folder" ] \
  || fail "expected the one folder $folder, got $(ls)"

cd "$folder"
sha256sum --check --strict --quiet SHA256SUMS
diff <(cut --characters=67- SHA256SUMS) <(find . -type f ! -name SHA256SUMS -printf '%P\n' | sort) \
  || fail "SHA256SUMS does not name every file"
for file in README LICENSE NOTICE licenses/luajit.txt lib/libmoonring.so lua/embed.h \
  scripts/train.lua lua/report/page.html lua/report/trackers/adapter.py \
  data/similarity/words.txt; do
  [ -s "$file" ] || fail "there is no $file"
done
grep --quiet "^Moonring $version for " README \
  || fail "README is of another version: $(head -n 1 README)"

said=$(cd / && LD_LIBRARY_PATH=$libraries "$OLDPWD/moonring" version)
# Packed outside of git it has no commit.
[[ "$said" =~ ^"moonring $version ("("commit "[0-9a-f]{8}"+"?", "[0-9]{4}-[0-9]{2}-[0-9]{2}|\
"commit unknown")"; ${flavor%13}; LibTorch 2.11.0)"$ ]] \
  || fail "'moonring version' says '$said', expected $version, the commit and $flavor"

# A byte that is changed later is detected.
printf x >>README
! sha256sum --check --strict --quiet SHA256SUMS >/dev/null 2>&1 \
  || fail "SHA256SUMS holds for another README"

# The archive's bytes do not depend on who packs it or when: files are sorted by name and have no
# owner, the same time, and one mode for files and one for programs.
listing=$(tar --list --verbose --numeric-owner --full-time --utc --file="../$name")
# Replaces / so that the files of a folder are sorted before a name like FOLDER.x.
names=$(tar --list --file="../$name" | tr / '\001')
[ "$names" = "$(sort <<<"$names")" ] || fail "the files are not in the order of their names"
kinds=$(awk '{ print $1, $2, $4, $5 }' <<<"$listing" | sort --unique)
wanted="-rw-r--r-- 0/0 2000-01-01 00:00:00
-rwxr-xr-x 0/0 2000-01-01 00:00:00
drwxr-xr-x 0/0 2000-01-01 00:00:00"
[ "$kinds" = "$wanted" ] || fail "modes, owners and times: expected
$wanted
got
$kinds"
[ "$(head --bytes=8 "../$name" | od -A n -t x1 | cut --delimiter=' ' --fields=5-9)" = \
  "00 00 00 00 00" ] || fail "gzip's header holds a name or a time"
echo "all as expected"
