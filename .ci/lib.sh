# Shared by .ci/run and .ci/full. Source it from the top folder of the project.

uv=.uv/bin/uv
export UV_NO_PROGRESS=1

# step NAME COMMAND…: says what runs and how long it took; a failure ends the script with the command's exit code.
step() {
  local name=$1 begin=$SECONDS code=0
  shift
  printf '\n=== %s\n' "$name"
  "$@" || code=$?
  if ((code)); then
    printf '=== %s: FAILED with exit code %d after %d s\n' "$name" "$code" $((SECONDS - begin))
    exit "$code"
  fi
  printf '=== %s: %d s\n' "$name" $((SECONDS - begin))
}

# readme NAME: the command that stands in README.md between <!-- NAME:begin --> and <!-- NAME:end -->, exactly.
# Fails when there is none.
readme() {
  sed -n "/<!-- $1:begin -->/,/<!-- $1:end -->/p" README.md | grep -v -e '^<!--' -e '^```'
}

# with_coverage COMMAND…: the same command, measured.
with_coverage() {
  PYTEST_ADDOPTS="--cov --cov-report=" "$@"
}
