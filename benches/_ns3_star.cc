// The same star in ns-3: hosts on a learning bridge, links of 100 Mbit/s with queues of 100 packets, each host sending
// 1500 B packets at exponential gaps of 246.08 us to the others at random. Prints packets delivered and CPU seconds.
//
// `csma`: the devices of ns-3's own example of a learning bridge, half-duplex Ethernet. `simple`: its cheapest ones, full
// duplex as our links are, without any Ethernet. One-way delays are measured as in the yardstick: a tag with the instant of
// sending, a histogram at the receiver.

#include "ns3/bridge-module.h"
#include "ns3/core-module.h"
#include "ns3/csma-module.h"
#include "ns3/network-module.h"

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{
constexpr double GAP_NS = 246080;
constexpr uint32_t PACKET_BYTES = 1500;
constexpr uint16_t PROTOCOL = 0x88b5;

uint64_t g_delivered = 0;
std::vector<uint64_t> g_delays(4096);
std::vector<Ptr<NetDevice>> g_hosts;
Ptr<ExponentialRandomVariable> g_gap;
Ptr<UniformRandomVariable> g_other;
int64_t g_until_ns = 0;

class Sent : public Tag
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("Sent").SetParent<Tag>().AddConstructor<Sent>();
        return id;
    }
    TypeId GetInstanceTypeId() const override { return GetTypeId(); }
    uint32_t GetSerializedSize() const override { return 8; }
    void Serialize(TagBuffer to) const override { to.WriteU64(at_ns); }
    void Deserialize(TagBuffer from) override { at_ns = from.ReadU64(); }
    void Print(std::ostream& out) const override { out << at_ns; }
    uint64_t at_ns = 0;
};

bool Received(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
{
    Sent sent;
    packet->PeekPacketTag(sent);
    const uint64_t delay_us = (Simulator::Now().GetNanoSeconds() - sent.at_ns) / 1000;
    g_delays[std::min<uint64_t>(delay_us, g_delays.size() - 1)]++;
    g_delivered++;
    return true;
}

void Send(uint32_t host)
{
    auto packet = Create<Packet>(PACKET_BYTES);
    Sent sent;
    sent.at_ns = Simulator::Now().GetNanoSeconds();
    packet->AddPacketTag(sent);
    const auto count = static_cast<uint32_t>(g_hosts.size());
    const uint32_t to = (host + 1 + g_other->GetInteger(0, count - 2)) % count;
    g_hosts[host]->Send(packet, g_hosts[to]->GetAddress(), PROTOCOL);
    const auto gap = NanoSeconds(static_cast<int64_t>(g_gap->GetValue()));
    if ((Simulator::Now() + gap).GetNanoSeconds() < g_until_ns)
    {
        Simulator::Schedule(gap, &Send, host);
    }
}

Ptr<DropTailQueue<Packet>> Queue()
{
    auto queue = CreateObject<DropTailQueue<Packet>>();
    queue->SetMaxSize(QueueSize("100p"));
    return queue;
}

Ptr<NetDevice> Port(Ptr<Node> node, Ptr<CsmaChannel> channel)
{
    auto device = CreateObject<CsmaNetDevice>();
    device->SetQueue(Queue());
    device->SetAddress(Mac48Address::Allocate());
    node->AddDevice(device);
    device->Attach(channel);
    return device;
}

// 1500 B packets hold a link for 123.04 us: ns-3's simple device counts the packet alone, so its rate is that much lower.
Ptr<NetDevice> Port(Ptr<Node> node, Ptr<SimpleChannel> channel)
{
    auto device = CreateObject<SimpleNetDevice>();
    device->SetAttribute("PointToPointMode", BooleanValue(true));
    device->SetAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(PACKET_BYTES * 8 / 123.04e-6))));
    device->SetQueue(Queue());
    device->SetAddress(Mac48Address::Allocate());
    device->SetChannel(channel);
    node->AddDevice(device);
    return device;
}

// A host with its link to the bridge.
template <typename Channel>
void Link(Ptr<Channel> channel, Ptr<Node> middle, Ptr<BridgeNetDevice> bridge)
{
    auto device = Port(CreateObject<Node>(), channel);
    device->SetReceiveCallback(MakeCallback(&Received));
    bridge->AddBridgePort(Port(middle, channel));
    g_hosts.push_back(device);
}
} // namespace

int main(int count, char** given)
{
    const uint32_t hosts = count > 1 ? std::atoi(given[1]) : 32;
    const double seconds = count > 2 ? std::atof(given[2]) : 1;
    const bool csma = count <= 3 || std::string(given[3]) == "csma";
    g_until_ns = static_cast<int64_t>(seconds * 1e9);
    g_gap = CreateObject<ExponentialRandomVariable>();
    g_gap->SetAttribute("Mean", DoubleValue(GAP_NS));
    g_other = CreateObject<UniformRandomVariable>();
    auto middle = CreateObject<Node>();
    auto bridge = CreateObject<BridgeNetDevice>();
    bridge->SetAddress(Mac48Address::Allocate());
    middle->AddDevice(bridge);
    for (uint32_t host = 0; host < hosts; ++host)
    {
        if (csma)
        {
            auto channel = CreateObject<CsmaChannel>();
            channel->SetAttribute("DataRate", DataRateValue(DataRate("100Mbps")));
            Link(channel, middle, bridge);
        }
        else
        {
            Link(CreateObject<SimpleChannel>(), middle, bridge);
        }
        Simulator::Schedule(NanoSeconds(static_cast<int64_t>(g_gap->GetValue())), &Send, host);
    }
    const auto begun = std::clock();
    Simulator::Run();
    const double cpu_s = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    std::cout << g_delivered << " " << cpu_s << std::endl;
    Simulator::Destroy();
    return 0;
}
