package ticks;

import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.*;

/** A connector for Kafka Connect whose tasks, 0 and 1, each write "task number" ten times a second, and go on where they were. */
public class Ticks extends SourceConnector {
    private Map<String, String> config;

    @Override
    public void start(Map<String, String> props) {
        config = props;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Ticker.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int max) {
        List<Map<String, String>> tasks = new ArrayList<>();
        for (int i = 0; i < max; i++) {
            Map<String, String> task = new HashMap<>(config);
            task.put("task", Integer.toString(i));
            tasks.add(task);
        }
        return tasks;
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "where to");
    }

    @Override
    public String version() {
        return "1";
    }

    public static class Ticker extends SourceTask {
        private String topic, task;
        private long next;

        @Override
        public void start(Map<String, String> props) {
            topic = props.get("topic");
            task = props.get("task");
            Map<String, Object> last = context.offsetStorageReader().offset(Collections.singletonMap("task", task));
            next = last == null ? 0 : (Long) last.get("number") + 1;
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(100);
            SourceRecord record = new SourceRecord(Collections.singletonMap("task", task), Collections.singletonMap("number", next), topic,
                    Schema.STRING_SCHEMA, task + " " + next);
            next++;
            return Collections.singletonList(record);
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
