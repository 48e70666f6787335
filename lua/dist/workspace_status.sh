#!/bin/sh
# Prints what Bazel stores in its volatile status: the commit of this tree, with "+" if files differ
# from it, and the commit's date. dist.bzl packs both. A change of the volatile status alone runs no
# action again, so a commit invalidates no test. Outside of git it prints nothing.
commit=$(git rev-parse --short=8 HEAD 2>/dev/null) || exit 0
# git diff-index would count a file that was touched, but not changed. Without optional locks a
# build never makes another git command fail.
changed=$(GIT_OPTIONAL_LOCKS=0 git status --porcelain --untracked-files=no 2>/dev/null) \
  && [ -z "$changed" ] || commit=$commit+
echo "MOONRING_COMMIT $commit"
echo "MOONRING_COMMIT_DATE $(git show --no-patch --format=%cs HEAD)"
