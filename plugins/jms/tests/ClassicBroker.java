import org.apache.activemq.broker.BrokerService;

/** A small ActiveMQ Classic in memory: ClassicBroker PORT. */
public class ClassicBroker {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("penstock");
        broker.setPersistent(false);
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        broker.addConnector("tcp://127.0.0.1:" + arguments[0]);
        broker.start();
        broker.waitUntilStarted();
        System.out.println("ready");
        broker.waitUntilStopped();
    }
}
