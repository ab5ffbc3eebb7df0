import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;

/**
 * Extended BOOTSTRAP IN OUT GROUP: a transactional producer, and a member of a group of the consumer protocol with another one behind it,
 * that do what the lines of the standard input say and answer each with the same line:
 *
 * produce N: N transactions, each with a record for each of the 3 partitions of IN
 * transform N: read N records of IN and write each to OUT, with their offsets, in transactions
 */
public class Extended {
    static final long LIMIT_MS = 60_000;
    static String bootstrap, in, out, group;
    static int sent;
    static KafkaConsumer<String, String> consumer;
    static KafkaProducer<String, String> forwarder;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        in = args[1];
        out = args[2];
        group = args[3];
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        KafkaProducer<String, String> producer = producer(group + "-source");
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            int n = Integer.parseInt(words[1]);
            if (words[0].equals("produce"))
                produce(producer, n);
            else
                transform(n);
            System.out.println(line);
        }
        producer.close();
        if (consumer != null)
            consumer.close();
        System.out.println("closed");
    }

    static KafkaProducer<String, String> producer(String id) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("transactional.id", id);
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> producer = new KafkaProducer<>(p);
        producer.initTransactions();
        return producer;
    }

    static void produce(KafkaProducer<String, String> producer, int n) {
        for (int i = 0; i < n; i++) {
            producer.beginTransaction();
            for (int partition = 0; partition < 3; partition++)
                producer.send(new ProducerRecord<>(in, partition, null, partition + "-" + sent));
            producer.commitTransaction();
            sent++;
        }
    }

    static void transform(int n) {
        if (consumer == null) {
            Properties p = new Properties();
            p.put("bootstrap.servers", bootstrap);
            p.put("group.id", group);
            p.put("group.protocol", "consumer");
            p.put("enable.auto.commit", "false");
            p.put("auto.offset.reset", "earliest");
            p.put("isolation.level", "read_committed");
            p.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            p.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            consumer = new KafkaConsumer<>(p);
            consumer.subscribe(Collections.singletonList(in));
            forwarder = producer(group + "-forward");
        }
        long end = System.currentTimeMillis() + LIMIT_MS;
        for (int count = 0; count < n; ) {
            if (System.currentTimeMillis() > end)
                throw new AssertionError("only " + count + " of " + n + " records");
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            if (records.isEmpty())
                continue;
            forwarder.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
            for (ConsumerRecord<String, String> r : records) {
                forwarder.send(new ProducerRecord<>(out, r.partition(), null, r.value()));
                next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
            }
            forwarder.sendOffsetsToTransaction(next, consumer.groupMetadata());
            forwarder.commitTransaction();
            count += records.count();
        }
    }
}
