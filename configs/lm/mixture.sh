#!/usr/bin/env bash
# Makes the text mixture of the isoFLOP plans from Debian packages, fetched by name and unpacked, not
# installed: prose (anarchism: an FAQ), code (libstdc++'s headers), a dictionary (dict-gcide).
# Written to FOLDER/train.txt and FOLDER/validation.txt: chunks of 64 KiB of the three in turn, each
# twentieth of them held out.
set -eu
[[ $# -eq 1 ]] || { echo "usage: configs/lm/mixture.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq -o APT::Sandbox::User=root anarchism dict-gcide libstdc++-12-dev >&2
for package in *.deb; do dpkg-deb -x "$package" unpacked; done
export LC_ALL=C

# Zero bytes end documents, so none may come from a file.
plain() { tr -d '\000\r'; }
find unpacked -path '*anarchism*' -name '*.html*' | sort | while read -r page; do
  zcat -f "$page" | sed -e 's/<[^>]*>//g' -e 's/&nbsp;/ /g; s/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g'
done | plain | cat -s | head -c 9000000 > prose
find unpacked/usr/include -type f | sort | xargs cat 2>/dev/null | plain | head -c 6000000 > code
zcat -f unpacked/usr/share/dictd/gcide.dict.dz | plain | tail -c +100000 | head -c 6000000 > dictionary

mkdir chunks
for kind in prose code dictionary; do split -b 65536 -a 4 -d "$kind" chunks/part-; for part in chunks/part-*; do
  mv "$part" "chunks/${part##*-}-$kind"; done; done
: > "$folder/train.txt"
: > "$folder/validation.txt"
number=0
for chunk in chunks/*; do
  if [[ $((++number % 20)) -eq 0 ]]; then out=validation; else out=train; fi
  { cat "$chunk"; printf '\000'; } >> "$folder/$out.txt"
done
wc -c "$folder"/{train,validation}.txt
