"""The made-up market of the demo: industries, towns, products, sellers and what is bought together. No name is real."""

from __future__ import annotations

from typing import NamedTuple

HERO, HERO_COUNTRY, HERO_PRODUCT = "Wrenmoor Airport Ltd", "United Kingdom", "Trackelo Yard & Apron Control"


class Country(NamedTuple):
    language: str
    clients: int  # relative to the others
    legal_forms: tuple[str, ...]
    seller: str


class Seller(NamedTuple):
    username: str
    team: str


class Theme(NamedTuple):
    """A buying pattern: which industries follow it, how likely, and what its followers buy."""

    industries: dict[str, float]
    core: str  # kinds of products that almost every follower buys, divided by commas
    fringe: str  # kinds that some of them buy


SELLERS = {
    "Maya Thornfield": Seller("maya", "North"),
    "Lena Rehbach": Seller("lena", "North"),
    "Jonas Ekvall": Seller("jonas", "North"),
    "Daan Vinkhuis": Seller("daan", "North"),
    "Camille Fontbrune": Seller("camille", "South"),
    "Marco Rivasecca": Seller("marco", "South"),
    "Inés Valdoro": Seller("ines", "South"),
    "Lukas Steinrieder": Seller("lukas", "South"),
}

COUNTRIES = {
    "United Kingdom": Country("English", 48, ("Ltd", "plc"), "Maya Thornfield"),
    "Ireland": Country("English", 10, ("Ltd",), "Maya Thornfield"),
    "Germany": Country("German", 60, ("GmbH", "AG"), "Lena Rehbach"),
    "Sweden": Country("Nordic", 28, ("AB",), "Jonas Ekvall"),
    "Denmark": Country("Nordic", 20, ("A/S",), "Jonas Ekvall"),
    "Netherlands": Country("Dutch", 30, ("B.V.", "N.V."), "Daan Vinkhuis"),
    "Belgium": Country("French", 18, ("SA",), "Daan Vinkhuis"),
    "France": Country("French", 52, ("SAS", "SA"), "Camille Fontbrune"),
    "Italy": Country("Italian", 48, ("S.p.A.", "S.r.l."), "Marco Rivasecca"),
    "Spain": Country("Spanish", 44, ("S.A.", "S.L."), "Inés Valdoro"),
    "Austria": Country("German", 22, ("GmbH", "AG"), "Lukas Steinrieder"),
    "Switzerland": Country("German", 24, ("AG", "GmbH"), "Lukas Steinrieder"),
}

# towns that no map shows
TOWNS = {
    "English": (
        "Alderwold Brambleton Calderhurst Dunmorthy Elmcroft Fallowgate Garthmere Haverthorpe Hollinshaw Larkstead "
        "Marlwick Otterholt Penderworth Quillbury Ravenstoke Sablecombe Tarnhurst Thistlewick Wetherholt Wrenmoor "
        "Yarrowdene"
    ),
    "German": (
        "Ahrenfels Birkenrath Dornreuth Eichenkamp Falkenhain Grünacker Hirschfels Kaltenhain Kronreuth Lindenrath "
        "Mühlhain Nebelfels Rehnbrunn Rosenkamp Rübenhain Silberhain Sommerfels Tannenrath Weidenreuth Wolfskamp"
    ),
    "French": (
        "Aigrebois Bellecombe-le-Val Boisverne Chantelac Clairerive Fleurpin Fontaineval Grandverne Hautelac "
        "Longuepré Mirecombe Montselle Noirevigne Pierrelieu Rochepin Sauverive Septmares Valneuve Verterive"
    ),
    "Italian": (
        "Acquadora Albachiara Campoluce Casaviva Castelpura Fiordolce Fontenera Marserena Montedora Novaluce "
        "Olmoverde Pietraluce Pontedora Rivadolce Roccasana Serraluce Solmarina Terrafranca Torrechiara Valstella"
    ),
    "Spanish": (
        "Aguaclara Altaluna Arrohonda Bellopinar Camporrana Casalonga Cerrolobos Fuentedorada Lagohondo Miracañas "
        "Montelobos Olivarana Peñaluna Piedralonga Riobravo Roblaseca Sierralonga Torreluna Vegahonda"
    ),
    "Nordic": (
        "Askegård Bergkvist Björnfors Dalkälla Ekfors Elvgren Fjällvik Furudal Hjortnäs Islund Lindrud Lövfors "
        "Nyström Rönnvik Sjögren Skogfors Solkälla Stenrud Strandlid Österfors"
    ),
    "Dutch": (
        "Achterbeek Berkenwaard Broekzicht Dijkrust Eikendonk Heidewaard Kampoord Klaverdonk Korenwaard Laagmond "
        "Lindewaard Molendonk Noorderlaar Rietenhoven Ruiterveen Schaapwaard Vinkenoord Waterdonk Zilverhoven "
        "Zonnewaard"
    ),
}  # fmt: skip

# what a company of the industry calls itself, by language; English where a language has no form of its own
INDUSTRIES = {
    "Airlines": {"English": "{} Airways|Air {}", "German": "{} Air|Fluglinie {}", "French": "Air {}|Compagnie {}",
                 "Italian": "Linee Aeree {}", "Spanish": "Líneas {}", "Nordic": "{} Fly", "Dutch": "{} Vliegdienst"},
    "Airports": {"English": "{} Airport", "German": "Flughafen {}", "French": "Aéroport de {}",
                 "Italian": "Aeroporto di {}", "Spanish": "Aeropuerto de {}", "Nordic": "{} Flygplats",
                 "Dutch": "Luchthaven {}"},
    "Hospitals": {"English": "{} General Hospital|{} Infirmary", "German": "Klinikum {}|Krankenhaus {}",
                  "French": "Hôpital de {}|Clinique {}", "Italian": "Ospedale di {}|Casa di Cura {}",
                  "Spanish": "Hospital de {}|Clínica {}", "Nordic": "{} Sjukhus", "Dutch": "Ziekenhuis {}"},
    "Pharmaceuticals": {"English": "{} Pharma|{} Therapeutics", "German": "{} Arzneimittel|{} Pharma",
                        "French": "Laboratoires {}", "Italian": "Farmaceutici {}", "Spanish": "Farma {}"},
    "Laboratories": {"English": "{} Diagnostics|{} Laboratories", "German": "Labor {}|{} Diagnostik",
                     "French": "Analyses {}", "Italian": "Analisi {}", "Spanish": "Análisis {}"},
    "Logistics": {"English": "{} Freight|{} Logistics", "German": "Spedition {}|{} Logistik",
                  "French": "Transports {}", "Italian": "Trasporti {}", "Spanish": "Transportes {}",
                  "Nordic": "{} Spedition", "Dutch": "{} Transport"},
    "Retail": {"English": "{} Stores|{} Markets", "German": "Kaufhaus {}|{} Märkte", "French": "Magasins {}",
               "Italian": "Magazzini {}", "Spanish": "Almacenes {}", "Nordic": "{} Varuhus", "Dutch": "{} Winkels"},
    "Hotels": {"English": "{} Hotels|The {} Inns", "German": "Hotels {}|{} Resorts", "French": "Hôtels {}",
               "Italian": "Alberghi {}", "Spanish": "Hoteles {}", "Nordic": "{} Hotell"},
    "Banking": {"English": "{} Savings Bank|Bank of {}", "German": "{} Privatbank|Bankhaus {}",
                "French": "Banque de {}", "Italian": "Banca di {}", "Spanish": "Banco de {}", "Nordic": "{} Sparbank",
                "Dutch": "Bank van {}"},
    "Insurance": {"English": "{} Mutual|{} Insurance", "German": "{} Versicherung", "French": "Assurances {}",
                  "Italian": "Assicurazioni {}", "Spanish": "Seguros {}", "Nordic": "{} Försäkring",
                  "Dutch": "{} Verzekering"},
    "Manufacturing": {"English": "{} Machine Tools|{} Precision", "German": "{} Maschinenbau|{} Werkzeuge",
                      "French": "Mécanique {}", "Italian": "Meccanica {}", "Spanish": "Mecánica {}",
                      "Nordic": "{} Verkstad", "Dutch": "{} Machinebouw"},
    "Food & Drink": {"English": "{} Dairy|{} Brewing", "German": "Brauerei {}|Molkerei {}", "French": "Fromagerie {}",
                     "Italian": "Pastificio {}", "Spanish": "Conservas {}", "Nordic": "{} Mejeri",
                     "Dutch": "{} Zuivel"},
    "Utilities": {"English": "{} Water|{} Power", "German": "Stadtwerke {}", "French": "Eaux de {}",
                  "Italian": "Acquedotto {}", "Spanish": "Aguas de {}", "Nordic": "{} Kraft", "Dutch": "{} Netbeheer"},
}  # fmt: skip

# family: the line that its products are named after, and the products: kind, list price and, for what is used up, days
# from one order to the next
FAMILIES = {
    "Crew & Roster": ("Rosterel", "Roster Planner 18500,Standby Desk 7200,Fatigue Monitor 9800,Crew App 3400,"
                      "Bid Portal 5600,Duty-Time Audit 6900,Shift Exchange 2800,Credential Wallet 4100"),
    "Safety": ("Safewyn", "Incident Desk 8400,Hazard Map 5900,Safety Survey 2400,Permit to Work 11200,"
               "Evacuation Planner 4700,Lone-Worker Beacon 1650,Inspection App 3900,First-Aid Refill 290/56"),
    "Fleet & Tracking": ("Trackelo", "Yard & Apron Control 46000,Vehicle Tracker 5200,Route Optimizer 16800,"
                         "Driver Desk 6300,Cold-Chain Logger 3700,Asset Tags 420/42,Fuel Monitor 7500,"
                         "Delivery Proof 4400"),
    "Warehouse": ("Palletorn", "Dock Scheduler 9400,Pick Terminal 2900,Stock Robot 58000,Slot Optimizer 14300,"
                  "Pallet Labels 180/35,Returns Desk 5100,Customs Desk 8700,Inventory Drone 21000"),
    "Imaging": ("Scanoria", "Image Archive 39000,Reading Room 24500,Dose Monitor 12400,3D Viewer 15900,"
                "Contrast Kit 560/28,Portable Detector 33000,Report Dictation 7800,Image Exchange 9600"),
    "Patient Records": ("Chartamere", "Patient Record 44000,Bedside Terminal 3300,Medication Safety 17200,"
                        "Discharge Planner 6600,Consent Desk 4900,Wristbands 240/30,Referral Portal 8100,"
                        "Ward Board 5700"),
    "Laboratory": ("Beakerly", "Sample Tracker 13600,Bench Notebook 4300,Reagent Planner 6100,Quality Manager 19400,"
                   "Stability Chamber 27500,Calibration Set 850/60,Microplate Reader 16200,Reagent Pack 640/28"),
    "Stores & Tills": ("Tillmora", "Till 2600,Price Optimizer 18900,Loyalty Club 8800,Shelf Camera 6400,"
                       "Self-Checkout 13900,Receipt Rolls 95/28,Planogram 5300,Gift Cards 1900"),
    "Guests & Rooms": ("Guestorel", "Booking Desk 11800,Room Key 3800,Revenue Manager 17600,Housekeeping App 2700,"
                       "Guest Wi-Fi 6200,Minibar Sensor 1450,Event Planner 7100,Key Card Pack 160/45"),
    "Identity & Access": ("Keyharrow", "Single Sign-On 9900,Badge Printer 3100,Access Gate 12700,Visitor Desk 4600,"
                          "Privileged Vault 22800,Badge Ribbons 130/40,Access Review 6700,Biometric Door 8900"),
    "Audit & Privacy": ("Ledgerwyn", "Audit Trail 14600,Privacy Desk 7700,Risk Register 9300,Fraud Monitor 41000,"
                        "Policy Library 3600,Records Vault 18200,Sanctions Check 12100,Report Builder 5800"),
    "Machine Monitoring": ("Cogbury", "Vibration Sensor 1250,Machine Gateway 4800,Maintenance Planner 15300,"
                           "Spare-Parts Desk 7400,Digital Twin 52000,Thermal Camera 9100,Lubricant Kit 310/50,"
                           "Line Dashboard 6800"),
    "Metering & Grid": ("Meterelle", "Smart Meter 880,Outage Map 16500,Load Forecaster 34000,Field Crew App 4200,"
                        "Substation Monitor 23600,Leak Detector 5500,Meter Seals 150/45,Tariff Engine 19800"),
}  # fmt: skip

THEMES = {
    "Airlines & airports: crew and safety": Theme(
        {"Airlines": 1.0, "Airports": 1.0, "Logistics": 0.12},
        "Roster Planner,Standby Desk,Fatigue Monitor,Crew App,Duty-Time Audit,Incident Desk,Yard & Apron Control",
        "Bid Portal,Credential Wallet,Hazard Map,Safety Survey,Evacuation Planner,Access Gate,Badge Ribbons,"
        "Vehicle Tracker,Asset Tags",
    ),
    "Hospitals: imaging and patient records": Theme(
        {"Hospitals": 1.0, "Laboratories": 0.2},
        "Image Archive,Reading Room,Patient Record,Bedside Terminal,Medication Safety,Wristbands,Contrast Kit",
        "Dose Monitor,3D Viewer,Portable Detector,Report Dictation,Discharge Planner,Consent Desk,Ward Board,"
        "Referral Portal,Image Exchange,Roster Planner,Shift Exchange,Sample Tracker",
    ),
    "Laboratories & pharma: quality and cold chain": Theme(
        {"Laboratories": 1.0, "Pharmaceuticals": 1.0, "Hospitals": 0.45, "Food & Drink": 0.35},
        "Sample Tracker,Bench Notebook,Quality Manager,Reagent Pack,Cold-Chain Logger,Calibration Set",
        "Reagent Planner,Stability Chamber,Microplate Reader,Audit Trail,Records Vault,Medication Safety,"
        "Access Review,Inspection App",
    ),
    "Logistics & retail: warehouse and fleet": Theme(
        {"Logistics": 1.0, "Retail": 0.6, "Airports": 0.45, "Food & Drink": 0.5, "Pharmaceuticals": 0.25},
        "Dock Scheduler,Pick Terminal,Pallet Labels,Route Optimizer,Vehicle Tracker,Delivery Proof,"
        "Yard & Apron Control",
        "Stock Robot,Slot Optimizer,Returns Desk,Customs Desk,Inventory Drone,Driver Desk,Fuel Monitor,Asset Tags,"
        "Cold-Chain Logger",
    ),
    "Retail & hotels: tills and guests": Theme(
        {"Retail": 1.0, "Hotels": 1.0, "Airports": 0.35},
        "Till,Loyalty Club,Receipt Rolls,Self-Checkout,Guest Wi-Fi,Gift Cards",
        "Price Optimizer,Shelf Camera,Planogram,Booking Desk,Room Key,Revenue Manager,Housekeeping App,Event Planner,"
        "Key Card Pack,Minibar Sensor,Returns Desk",
    ),
    "Banks & insurers: identity and audit": Theme(
        {"Banking": 1.0, "Insurance": 1.0, "Hospitals": 0.3, "Airlines": 0.4, "Pharmaceuticals": 0.25,
         "Utilities": 0.2},
        "Single Sign-On,Audit Trail,Privacy Desk,Risk Register,Privileged Vault,Access Review",
        "Fraud Monitor,Policy Library,Records Vault,Sanctions Check,Report Builder,Visitor Desk,Biometric Door,"
        "Badge Printer,Badge Ribbons",
    ),
    "Manufacturers: machines and safety": Theme(
        {"Manufacturing": 1.0, "Food & Drink": 1.0, "Pharmaceuticals": 0.3, "Utilities": 0.3, "Logistics": 0.15},
        "Vibration Sensor,Machine Gateway,Maintenance Planner,Lubricant Kit,Permit to Work,Line Dashboard",
        "Spare-Parts Desk,Digital Twin,Thermal Camera,Incident Desk,Hazard Map,Lone-Worker Beacon,Inspection App,"
        "First-Aid Refill,Inventory Drone",
    ),
    "Utilities: metering and field crews": Theme(
        {"Utilities": 1.0, "Manufacturing": 0.35, "Hotels": 0.2, "Banking": 0.06},
        "Smart Meter,Outage Map,Field Crew App,Meter Seals,Leak Detector,Load Forecaster",
        "Substation Monitor,Tariff Engine,Vibration Sensor,Maintenance Planner,Lone-Worker Beacon,Permit to Work,"
        "Shift Exchange,Thermal Camera,Vehicle Tracker,Fuel Monitor",
    ),
}  # fmt: skip
