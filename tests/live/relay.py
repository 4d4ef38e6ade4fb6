"""A relay between two ends of TCP connections, with a delay and cuts."""
import contextlib
import json
import os
import socket
import threading
import time


class Relay:
    """Takes connections for an address and passes them on, each byte `delay` seconds later, both ways."""

    def __init__(self, address, delay=0.0):
        host, port = address.rsplit(":", 1)
        self.to, self.delay = (host.strip("[]"), int(port)), delay
        self.flows = threading.Event()
        self.flows.set()
        self.refuses = False
        self.passed = 0  # bytes
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.open = [self.listener]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if self.refuses:
                    near.close()
                    continue
                far = socket.create_connection(self.to)
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.open.append(end)
                for source, sink in ((near, far), (far, near)):
                    queue, ready = [], threading.Condition()
                    threading.Thread(target=self.read, args=(source, queue, ready), daemon=True).start()
                    threading.Thread(target=self.write, args=(sink, queue, ready), daemon=True).start()

    def read(self, source, queue, ready):
        data = b"x"
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            with ready:
                queue.append((time.monotonic() + self.delay, data))
                ready.notify()

    def write(self, sink, queue, ready):
        while True:
            with ready:
                ready.wait_for(lambda: queue)
                due, data = queue.pop(0)
            time.sleep(max(0.0, due - time.monotonic()))
            self.flows.wait()
            try:
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)
                self.passed += len(data)
            except OSError:
                return

    def hold(self):
        """Nothing gets through any more, in silence: what is sent waits for go_on()."""
        self.flows.clear()

    def cut(self):
        """Connections end, and nobody gets another one until go_on()."""
        self.refuses = True
        for end in self.open[1:]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def go_on(self):
        self.refuses = False
        self.flows.set()

    def close(self):
        self.flows.set()
        for end in self.open:
            end.close()


def before_server(path, delay=0.0):
    """A relay for whoever dials the server of this file (PART/server) from now on."""
    with open(path, encoding="utf-8") as f:
        told = json.load(f)
    relay = Relay(told["addresses"][0], delay)
    told["addresses"] = [relay.address]
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as f:
        json.dump(told, f)
    os.rename(path + ".new", path)
    return relay
