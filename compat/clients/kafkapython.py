"""kafkapython.py BOOTSTRAP PREFIX [VERSION...]: kafka-python: produce, consume with a group, seek.

With versions such as 0.8.2 or 0.10.0 it speaks as a client of that age does, so with Produce v0 to v2, Fetch v0 to v3 and
the message formats 0 and 1. Topics must exist: PREFIX and a name of each version. Prints one line for each version.
"""
import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

bootstrap, prefix, versions = sys.argv[1], sys.argv[2], sys.argv[3:]
COUNT = 200


def exchange(topic, settings, codec):
    # Newer ones are idempotent unless told not to; brokers before 0.11 know no producer ids.
    settings = dict(settings)
    producing = dict(settings)
    if "api_version" in settings and "enable_idempotence" in KafkaProducer.DEFAULT_CONFIG:
        producing["enable_idempotence"] = False
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, acks="all", linger_ms=5, **producing)
    sent = [producer.send(topic, key=b"k%d" % i, value=b"v%d" % i * 20, partition=0) for i in range(COUNT)]
    producer.flush(30)
    offsets = [future.get(30).offset for future in sent]
    producer.close()
    assert offsets == list(range(offsets[0], offsets[0] + COUNT)), offsets[:10]

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=30000, **settings)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), offsets[0])
    messages = [next(consumer) for _ in range(COUNT)]
    consumer.close()
    assert [m.offset for m in messages] == offsets
    assert all(m.key == b"k%d" % i and m.value == b"v%d" % i * 20 for i, m in enumerate(messages))


def group(topic, name, settings):
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest",
                             consumer_timeout_ms=30000, enable_auto_commit=False, **settings)
    for _ in range(COUNT):
        next(consumer)
    consumer.commit()
    assert consumer.committed(TopicPartition(topic, 0)) == COUNT
    consumer.close()


# lz4 in message format 0 has a wrong header checksum, which the client no longer writes.
codecs = {"0.8.2": ["gzip", "snappy"], "0.9": ["gzip", "snappy"]}
for version in versions or ["new"]:
    settings = {} if version == "new" else {"api_version": tuple(int(n) for n in version.split("."))}
    topic = prefix + version
    for codec in [None] + codecs.get(version, ["gzip", "snappy", "lz4"]):
        exchange(topic, settings, codec)
    if version != "0.8.2":  # no groups before 0.9
        group(topic, prefix + "group" + version, settings)
    print("version " + version, flush=True)
