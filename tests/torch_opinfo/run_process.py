"""A child process that answers lines with lines of JSON."""

import json
import os
import select
import signal
import subprocess
import time


class Process:
    """command, environment: of the process; log: path of the file to which its standard error is added. SIGUSR1 must make it write its stacks there."""

    def __init__(self, command, environment, log):
        self.log = open(log, "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=environment)
        self.text, self.asked = b"", "its start"

    def ask(self, line):
        self.asked = line
        try:
            self.process.stdin.write((line + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:  # the answer says why
            pass

    def answer(self, seconds):
        """The next answer; a text where there is none: why the process has ended."""
        end = time.monotonic() + seconds
        while b"\n" not in self.text:
            if not select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))[0]:
                self._stacks()
                self.end()
                return f"no answer in {seconds:.0f} s"
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                try:
                    self.process.wait(1)
                except subprocess.TimeoutExpired:
                    pass
                status = self.end()
                return f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
            self.text += more
        line, self.text = self.text.split(b"\n", 1)
        return json.loads(line)

    def _stacks(self):
        """Lets the process write the stacks of its threads into the log."""
        self.log.write(f"no answer of process {self.process.pid} to {self.asked!r}:\n".encode())
        self.log.flush()
        self.process.send_signal(signal.SIGUSR1)
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            pass

    def end(self):
        """Ends the process if it runs. Its exit status."""
        if self.process.poll() is None:
            self.process.kill()
        self.log.close()
        return self.process.wait()
