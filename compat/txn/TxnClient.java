import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/**
 * TxnClient BOOTSTRAP PREFIX: the transactional producer and the read_committed consumer of whatever version of kafka-clients is
 * on the class path, from 0.11 on. Prints one line for each step that held; ends with an exception otherwise.
 *
 * Topics PREFIXin (1 partition) and PREFIXout (3 partitions) must exist.
 */
public class TxnClient {
    static final long LIMIT_MS = 60_000;
    static String bootstrap;
    static String prefix;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        prefix = args[1];
        commitAndAbort();
        fencing();
        transform();
    }

    static void step(String words) {
        System.out.println(words);
    }

    static KafkaProducer<String, String> producer(String id) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("transactional.id", id);
        p.put("enable.idempotence", "true");
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(p);
    }

    static KafkaConsumer<String, String> consumer(String group, String isolation) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("group.id", group);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("isolation.level", isolation);
        p.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return new KafkaConsumer<>(p);
    }

    /** Three transactions over three partitions, the second aborted. */
    static void commitAndAbort() throws Exception {
        try (KafkaProducer<String, String> producer = producer(prefix + "writer")) {
            producer.initTransactions();
            for (int i = 0; i < 3; i++) {
                producer.beginTransaction();
                for (int n = 0; n < 30; n++)
                    producer.send(new ProducerRecord<>(prefix + "out", n % 3, null, i + "-" + n));
                if (i == 1) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        List<String> wanted = new ArrayList<>();
        for (int i = 0; i < 3; i += 2)
            for (int n = 0; n < 30; n++)
                wanted.add(i + "-" + n);
        Collections.sort(wanted);
        expect(read(prefix + "out", 3, "read_committed", 60), wanted);
        if (read(prefix + "out", 3, "read_uncommitted", 90).size() != 90)
            throw new AssertionError("read_uncommitted does not show all 90 records");
        step("commit and abort");
    }

    static void fencing() throws Exception {
        KafkaProducer<String, String> zombie = producer(prefix + "fenced");
        zombie.initTransactions();
        zombie.beginTransaction();
        zombie.send(new ProducerRecord<>(prefix + "out", 0, null, "of a zombie"));
        zombie.flush();
        try (KafkaProducer<String, String> next = producer(prefix + "fenced")) {
            next.initTransactions();
            next.beginTransaction();
            next.send(new ProducerRecord<>(prefix + "out", 0, null, "of the next"));
            next.commitTransaction();
        }
        boolean fenced = false;
        try {
            zombie.commitTransaction();
        } catch (ProducerFencedException e) {
            fenced = true;
        } catch (RuntimeException e) { // what later clients throw has this cause, or says that the epoch is old
            fenced = e.toString().contains("Fenced") || e.toString().contains("InvalidProducerEpoch")
                || String.valueOf(e.getCause()).contains("Fenced") || String.valueOf(e.getCause()).contains("InvalidProducerEpoch");
            if (!fenced)
                throw e;
        }
        zombie.close();
        if (!fenced)
            throw new AssertionError("the zombie could commit");
        List<String> seen = read(prefix + "out", 3, "read_committed", 61);
        if (seen.contains("of a zombie") || !seen.contains("of the next"))
            throw new AssertionError("read_committed shows " + seen);
        step("fencing");
    }

    /** Consume, transform, produce: the offsets are part of the transaction; the first try is aborted. */
    static void transform() throws Exception {
        try (KafkaProducer<String, String> source = producer(prefix + "source")) {
            source.initTransactions();
            source.beginTransaction();
            for (int n = 0; n < 50; n++)
                source.send(new ProducerRecord<>(prefix + "in", 0, null, "in-" + n));
            source.commitTransaction();
        }
        String group = prefix + "group";
        try (KafkaProducer<String, String> producer = producer(prefix + "transform")) {
            producer.initTransactions();
            for (boolean commit : new boolean[] {false, true}) {
                try (KafkaConsumer<String, String> consumer = consumer(group, "read_committed")) {
                    consumer.subscribe(Collections.singletonList(prefix + "in"));
                    producer.beginTransaction();
                    long next = 0;
                    int count = 0;
                    for (long end = System.currentTimeMillis() + LIMIT_MS; count < 50; ) {
                        if (System.currentTimeMillis() > end)
                            throw new AssertionError("only " + count + " of 50 records");
                        for (ConsumerRecord<String, String> r : poll(consumer, 200)) {
                            producer.send(new ProducerRecord<>(prefix + "out", 1, null, "out of " + r.value()));
                            next = r.offset() + 1;
                            count++;
                        }
                    }
                    sendOffsets(producer, consumer,
                        Collections.singletonMap(new TopicPartition(prefix + "in", 0), new OffsetAndMetadata(next)), group);
                    if (commit)
                        producer.commitTransaction();
                    else
                        producer.abortTransaction();
                }
            }
        }
        int outs = 0;
        for (String value : read(prefix + "out", 3, "read_committed", 111))
            if (value.startsWith("out of "))
                outs++;
        if (outs != 50)
            throw new AssertionError(outs + " results of 50 records");
        try (KafkaConsumer<String, String> consumer = consumer(group, "read_committed")) {
            OffsetAndMetadata at = committed(consumer, new TopicPartition(prefix + "in", 0));
            if (at == null || at.offset() < 50)
                throw new AssertionError("committed is " + at);
        }
        step("consume, transform, produce");
    }

    /** All values, sorted: at least count of them, and then what comes within a second. */
    static List<String> read(String topic, int partitions, String isolation, int count) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(prefix + "reader", isolation)) {
            List<TopicPartition> all = new ArrayList<>();
            for (int i = 0; i < partitions; i++)
                all.add(new TopicPartition(topic, i));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            for (long end = System.currentTimeMillis() + LIMIT_MS; ; ) {
                for (ConsumerRecord<String, String> r : poll(consumer, 100))
                    values.add(r.value());
                boolean done = values.size() >= count;
                for (TopicPartition tp : all)
                    done &= consumer.position(tp) >= ends.get(tp);
                if (done)
                    break;
                if (System.currentTimeMillis() > end)
                    throw new AssertionError(isolation + " shows only " + values.size() + " of " + count + " records");
            }
        }
        Collections.sort(values);
        return values;
    }

    // What changed its form between 0.11 and 4.x is called by its name.

    @SuppressWarnings("unchecked")
    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer, long ms) {
        try {
            return (ConsumerRecords<String, String>) call(consumer, "poll", Duration.class, Duration.ofMillis(ms));
        } catch (NoSuchMethodException e) {
            return (ConsumerRecords<String, String>) must(consumer, "poll", long.class, ms);
        }
    }

    static OffsetAndMetadata committed(KafkaConsumer<String, String> consumer, TopicPartition tp) {
        try {
            Map<?, ?> all = (Map<?, ?>) call(consumer, "committed", Set.class, Collections.singleton(tp));
            return (OffsetAndMetadata) all.get(tp);
        } catch (NoSuchMethodException e) {
            return (OffsetAndMetadata) must(consumer, "committed", TopicPartition.class, tp);
        }
    }

    /** With the consumer's membership (KIP-447) where the client knows that. */
    static void sendOffsets(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer,
            Map<TopicPartition, OffsetAndMetadata> offsets, String group) throws Exception {
        Object member;
        try {
            member = KafkaConsumer.class.getMethod("groupMetadata").invoke(consumer);
        } catch (NoSuchMethodException e) {
            KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class).invoke(producer, offsets, group);
            return;
        }
        Class<?> type = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
        KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, type).invoke(producer, offsets, member);
    }

    static Object call(Object on, String method, Class<?> type, Object argument) throws NoSuchMethodException {
        try {
            return on.getClass().getMethod(method, type).invoke(on, argument);
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        } catch (InvocationTargetException e) {
            throw new RuntimeException(e.getCause());
        }
    }

    static Object must(Object on, String method, Class<?> type, Object argument) {
        try {
            return call(on, method, type, argument);
        } catch (NoSuchMethodException e) {
            throw new AssertionError(e);
        }
    }

    static void expect(List<String> got, List<String> wanted) {
        if (!got.equals(wanted))
            throw new AssertionError("read " + got + ", wanted " + wanted);
    }
}
