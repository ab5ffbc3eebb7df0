import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * OldConsumer BOOTSTRAP TOPIC GROUP: reads ten records as a member of a group, prints each, and commits.
 */
public class OldConsumer {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("group.id", args[2]);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(Collections.singletonList(args[1]));
            for (int n = 0; n < 10; ) {
                for (ConsumerRecord<String, String> r : consumer.poll(1000)) {
                    System.out.println(r.offset() + " " + r.key() + " " + r.value());
                    n++;
                }
            }
            consumer.commitSync();
        }
    }
}
