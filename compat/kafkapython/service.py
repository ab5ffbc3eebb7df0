"""test.service of kafka-python's tests, which its package leaves out: what they need of it for a broker that runs already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def stop(self):
        pass

    def dump_logs(self):
        pass


class SpawnedService:
    def __init__(self, *_):
        raise RuntimeError("no broker is started here")
