# expect.sh: counted checks of the shell tests, which read it with `.`; $dir is a folder of the test.
passed=0 failed=0 skipped=0
expect() { # WHAT COMMAND..
    what=$1
    shift
    if "$@" >"$dir/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $what"
        head -5 "$dir/out"
    fi
}
skip() { # WHAT
    skipped=$((skipped + 1))
    echo "SKIP $1"
}
