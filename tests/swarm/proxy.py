"""A TCP proxy that is as bad as a test wants it: a network between two programs on one machine.

    proxy = Proxy("127.0.0.1", 5432)
    ... connect to proxy.port ...
    proxy.cut()          resets every connection, and refuses others
    proxy.reset()        resets every connection, and takes others
    proxy.silence()      nothing arrives any more, in either direction; connections stay, and can be made
    proxy.delay(0.05)    everything arrives that much later
    proxy.heal()         as it was: what was on its way in a silence arrives late; heal(lost=True): it never does, and the
                         connections that were open hang for good, as when something on the way has forgotten them
"""

import asyncio
import socket
import struct
import threading

from ports import free_port

CHUNK = 1 << 16


class Link:
    """One connection through the proxy."""

    def __init__(self, near, far):
        self.near, self.far = near, far
        self.lost = False

    def reset(self):
        for writer in (self.near, self.far):
            handle = writer.get_extra_info("socket")
            if handle is not None and handle.fileno() >= 0:
                handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class Proxy:
    def __init__(self, host, port):
        self.target = (host, port)
        self.port, self.listener = free_port(), None
        self.links, self.seconds, self.accepted = set(), 0.0, 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self._do(self._open())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- what tests say ----------------------------------------------------------------------

    def cut(self):
        self._do(self._shut())
        self._do(self._reset())

    def reset(self):
        self._do(self._reset())

    def silence(self):
        self._do(self._gate(False))

    def delay(self, seconds):
        self.seconds = seconds

    def heal(self, lost=False):
        if lost:
            self._do(self._forget())
        self.seconds = 0.0
        self._do(self._gate(True))
        self._do(self._open())

    def close(self):
        self._do(self._shut())
        self._do(self._gate(True))
        self._do(self._reset())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)
        assert not self.thread.is_alive(), "the proxy does not end"

    # ---- its thread --------------------------------------------------------------------------

    def _do(self, what):
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(60)

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.open = asyncio.Event()
        self.open.set()
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _open(self):
        if self.listener is None:
            self.listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _shut(self):
        listener, self.listener = self.listener, None
        if listener:
            listener.close()

    async def _reset(self):
        for link in list(self.links):
            link.reset()

    async def _gate(self, is_open):
        self.open.set() if is_open else self.open.clear()

    async def _forget(self):
        for link in self.links:
            link.lost = True

    async def _accept(self, reader, writer):
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
        except OSError:
            Link(writer, writer).reset()
            return
        link = Link(writer, far_writer)
        for each in (writer, far_writer):
            each.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.links.add(link)
        await asyncio.gather(self._pump(link, reader, far_writer), self._pump(link, far_reader, writer))
        self.links.discard(link)
        writer.close()
        far_writer.close()

    async def _pump(self, link, reader, writer):
        try:
            while data := await reader.read(CHUNK):
                await self.open.wait()
                if self.seconds:
                    await asyncio.sleep(self.seconds)
                if link.lost:
                    await asyncio.Event().wait()
                writer.write(data)
                await writer.drain()
            await self.open.wait()
            writer.write_eof()
        except OSError:
            link.reset()
