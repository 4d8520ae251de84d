echo nothing to launch
rm -rf /does/not/run
