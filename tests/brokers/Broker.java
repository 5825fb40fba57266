import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.core.config.Configuration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.config.impl.SecurityConfiguration;
import org.apache.activemq.artemis.core.security.Role;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;
import org.apache.activemq.artemis.spi.core.security.jaas.InVMLoginModule;

/** An Artemis broker whose messages survive a kill: Broker FOLDER USER PASSWORD ACCEPTOR... */
public class Broker {
    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        String user = arguments[1];
        Configuration broker = new ConfigurationImpl();
        broker.setName("penstock");
        broker.setPersistenceEnabled(true);
        broker.setJournalType(JournalType.NIO);
        broker.setJournalFileSize(1024 * 1024);
        broker.setJournalMinFiles(2);
        broker.setJournalDirectory(folder.resolve("journal").toString());
        broker.setBindingsDirectory(folder.resolve("bindings").toString());
        broker.setLargeMessagesDirectory(folder.resolve("large").toString());
        broker.setPagingDirectory(folder.resolve("paging").toString());
        broker.setNodeManagerLockDirectory(folder.resolve("lock").toString());
        broker.setJMXManagementEnabled(false);
        broker.setThreadPoolMaxSize(8);
        broker.setScheduledThreadPoolMaxSize(2);
        for (int acceptor = 3; acceptor < arguments.length; acceptor++) {
            broker.addAcceptorConfiguration("tcp" + acceptor, arguments[acceptor]);
        }

        AddressSettings everywhere = new AddressSettings();
        everywhere.setAutoCreateQueues(true);
        everywhere.setAutoCreateAddresses(true);
        everywhere.setAutoDeleteQueues(false);
        everywhere.setAutoDeleteAddresses(false);
        everywhere.setDeadLetterAddress(SimpleString.of("DLQ"));
        everywhere.setMaxDeliveryAttempts(10);
        everywhere.setRedeliveryDelay(0);
        broker.addAddressSetting("#", everywhere);

        Set<Role> roles = new HashSet<>();
        roles.add(new Role("all", true, true, true, true, true, true, true, true, true, true, true, true));
        broker.putSecurityRoles("#", roles);
        SecurityConfiguration users = new SecurityConfiguration();
        users.addUser(user, arguments[2]);
        users.addRole(user, "all");

        EmbeddedActiveMQ server = new EmbeddedActiveMQ();
        server.setConfiguration(broker);
        server.setSecurityManager(
            new ActiveMQJAASSecurityManager(InVMLoginModule.class.getName(), users));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                server.stop();
            } catch (Exception failure) {
                failure.printStackTrace();
            }
        }));
        System.out.println("ready");
        Thread.currentThread().join();
    }
}
