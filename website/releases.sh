#!/bin/sh
# Builds the pages of this checkout into dist/, and those of each release (tags v*) into dist/TAG/.
set -eu
cd "$(dirname "$0")"
VERSIONS=$(git tag --list 'v*' --sort=-version:refname | grep -v -- - | tr '\n' ' ' || true)
export VERSIONS
npm run build
for VERSION in $VERSIONS; do
	SOURCE=$(mktemp -d)
	git -C .. archive "$VERSION" | tar -x -C "$SOURCE"
	VERSION=$VERSION SOURCE=$SOURCE npm run build
	rm -r "$SOURCE"
done
