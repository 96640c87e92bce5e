"""Appliances: virtual machines with somebody else's system, without our agent, configured through their serial
console.
"""
