// Package record owns Kafka's record formats: batches of magic 2 and the message sets of magic 0 and 1 that preceded
// them. It frames and reads logs that mix the three, builds batches, validates what producers send, converts old sets
// up and batches down, and compresses.
//
// Bytes are judged before they are believed: a size, count or length that the input claims never decides an
// allocation, and what is compressed is read as a stream, within Limits.
//
// Formats: Kafka's documentation, "Message Format"; org.apache.kafka.common.record.
package record
